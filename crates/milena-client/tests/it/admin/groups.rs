//! Groups: list, describe, delete, and remove members.

use std::{collections::BTreeSet, time::Duration};

use milena_client::{
    admin::{ErrorCode, GroupFilter, GroupType, MemberToRemove},
    config::ConsumerConfig,
    consumer::{Consumer, TopicPartition},
};

use super::{admin, code, only, only_error};
use crate::broker::TestBroker;

/// A member with its partitions assigned.
async fn member(broker: &TestBroker, group: &str, protocol: &str, settings: &[(&str, &str)]) -> Consumer {
    let config = ConsumerConfig::builder(broker.address())
        .group_id(group)
        .set("group.protocol", protocol);
    let config = settings
        .iter()
        .fold(config, |config, (key, value)| config.set(*key, *value));
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    while consumer.assignment().is_empty() {
        consumer.poll(Duration::from_millis(10)).await.unwrap();
    }
    consumer
}

fn letters() -> BTreeSet<TopicPartition> {
    [0, 1].map(|number| TopicPartition::new("letters", number)).into()
}

#[tokio::test]
async fn groups_of_both_protocols_are_listed_and_described() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let admin = admin(&broker);
    let old = member(&broker, "old", "classic", &[("client.id", "milena")]).await;
    let new = member(&broker, "new", "consumer", &[("client.rack", "here")]).await;

    let listed = admin.list_groups(GroupFilter::default()).await.unwrap().all().unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|group| {
            (
                &*group.group_id,
                &*group.protocol_type,
                group.group_type.clone().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("new", "consumer", GroupType::Consumer),
        ("old", "consumer", GroupType::Classic),
    ];
    assert_eq!(listed, expected);
    let classic = GroupFilter {
        types: [GroupType::Classic].into(),
        ..Default::default()
    };
    let found = admin.list_groups(classic).await.unwrap().found;
    assert!(found.iter().map(|group| &*group.group_id).eq(["old"]));
    let empty = GroupFilter {
        states: ["Empty".into()].into(),
        ..Default::default()
    };
    assert_eq!(admin.list_groups(empty).await.unwrap().found, []);

    let described = admin.describe_groups(["old", "new", "nobody"]).await;
    assert_eq!(code(&described["nobody"]), Some(ErrorCode::GroupIdNotFound));
    let classic = described["old"].as_ref().unwrap();
    assert_eq!(
        (&classic.group_type, &*classic.state, &*classic.assignor),
        (&GroupType::Classic, "Stable", "range")
    );
    assert_eq!((classic.coordinator.id, classic.epoch), (1, None));
    assert_eq!((classic.members.len(), &*classic.members[0].client_id), (1, "milena"));
    assert_eq!(
        (&classic.members[0].assignment, &classic.members[0].target),
        (&letters(), &None)
    );
    let modern = described["new"].as_ref().unwrap();
    assert_eq!(
        (&modern.group_type, &*modern.assignor),
        (&GroupType::Consumer, "uniform")
    );
    assert_eq!(modern.members[0].assignment, letters());
    assert_eq!(modern.members[0].target.as_ref(), Some(&letters()));
    assert_eq!(modern.members[0].rack.as_deref(), Some("here"));
    assert!(modern.epoch.is_some() && modern.members[0].epoch.is_some());

    let busy = only_error(admin.delete_groups(["old"]).await);
    assert_eq!(busy.code(), Some(ErrorCode::NonEmptyGroup));
    assert!(
        busy.to_string().ends_with("; stop or remove its members first"),
        "{busy}"
    );
    old.close().await.unwrap();
    new.close().await.unwrap();
    let deleted = admin.delete_groups(["old", "nobody"]).await;
    assert!(deleted["old"].is_ok(), "{deleted:?}");
    assert_eq!(code(&deleted["nobody"]), Some(ErrorCode::GroupIdNotFound));
}

#[tokio::test]
async fn members_are_removed_by_either_name() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let admin = admin(&broker);
    // They are never polled again, so they do not rejoin.
    let _dynamic = member(&broker, "dynamic", "classic", &[]).await;
    let _fixed = member(&broker, "fixed", "classic", &[("group.instance.id", "first")]).await;
    let members = only(admin.describe_groups(["dynamic"]).await).members;
    let dynamic = MemberToRemove::Member(members[0].member_id.clone());
    let nobody = MemberToRemove::Member("nobody".into());
    let removed = admin.remove_members("dynamic", [dynamic.clone(), nobody.clone()]).await;
    assert!(removed[&dynamic].is_ok(), "{removed:?}");
    assert_eq!(code(&removed[&nobody]), Some(ErrorCode::UnknownMemberId));
    let removed = admin.remove_all_members("fixed").await.unwrap();
    let names: Vec<_> = removed.keys().cloned().collect();
    assert_eq!(names, [MemberToRemove::Instance("first".into())]);
    only(removed);
    assert!(admin.remove_all_members("nobody").await.is_err());
}

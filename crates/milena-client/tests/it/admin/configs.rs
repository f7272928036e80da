//! Settings of topics, brokers and groups.

use milena_client::admin::{Admin, ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ErrorCode, ResourceKind};

use super::{admin, code, only, only_error};
use crate::broker::TestBroker;

async fn entry(admin: &Admin, resource: ConfigResource, name: &str) -> ConfigEntry {
    let entries = only(admin.describe_configs([resource]).await);
    entries.into_iter().find(|entry| entry.name == name).unwrap()
}

#[tokio::test]
async fn settings_change_one_by_one_and_go_back() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let admin = admin(&broker);
    let letters = || ConfigResource::topic("letters");
    let before = entry(&admin, letters(), "retention.ms").await;
    assert_eq!((before.source, before.read_only), (ConfigSource::Default, false));

    only(
        admin
            .alter_configs([
                (letters(), "retention.ms", ConfigChange::Set("1000".into())),
                (letters(), "cleanup.policy", ConfigChange::Append("compact".into())),
            ])
            .await,
    );
    let changed = entry(&admin, letters(), "retention.ms").await;
    assert_eq!(
        (changed.value.as_deref(), changed.source),
        (Some("1000"), ConfigSource::Topic)
    );
    assert!(!changed.synonyms.is_empty());
    let policy = entry(&admin, letters(), "cleanup.policy").await;
    assert_eq!(policy.value.as_deref(), Some("delete,compact"));

    only(
        admin
            .alter_configs([
                (letters(), "retention.ms", ConfigChange::Delete),
                (letters(), "cleanup.policy", ConfigChange::Subtract("delete".into())),
            ])
            .await,
    );
    assert_eq!(entry(&admin, letters(), "retention.ms").await, before);
    assert_eq!(
        entry(&admin, letters(), "cleanup.policy").await.value.as_deref(),
        Some("compact")
    );
}

#[tokio::test]
async fn a_change_can_be_tried_and_a_bad_one_is_refused() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let admin = admin(&broker);
    let letters = || ConfigResource::topic("letters");
    only(
        admin
            .validate_configs([(letters(), "retention.ms", ConfigChange::Set("1000".into()))])
            .await,
    );
    assert_eq!(
        entry(&admin, letters(), "retention.ms").await.source,
        ConfigSource::Default
    );
    let refused = admin
        .alter_configs([(letters(), "retention.ms", ConfigChange::Set("long".into()))])
        .await;
    let refused = only_error(refused);
    assert_eq!(refused.code(), Some(ErrorCode::InvalidConfig));
    assert!(
        refused.to_string().starts_with("topic letters: INVALID_CONFIG"),
        "{refused}"
    );
    let nowhere = admin
        .describe_configs([ConfigResource::topic("words"), letters()])
        .await;
    assert!(code(&nowhere[&ConfigResource::topic("words")]).is_some());
    assert!(nowhere[&letters()].is_ok());
}

#[tokio::test]
async fn brokers_and_groups_have_settings_too() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    let own = entry(&admin, ConfigResource::broker(1), "auto.create.topics.enable").await;
    assert_eq!(own.value.as_deref(), Some("false"));
    only(
        admin
            .alter_configs([(
                ConfigResource::group("readers"),
                "consumer.session.timeout.ms",
                ConfigChange::Set("50000".into()),
            )])
            .await,
    );
    let timeout = entry(&admin, ConfigResource::group("readers"), "consumer.session.timeout.ms").await;
    assert_eq!(
        (timeout.value.as_deref(), timeout.source),
        (Some("50000"), ConfigSource::Group)
    );
    broker.create_topic("letters", 1);
    let listed = admin.list_config_resources([]).await.unwrap();
    assert!(listed.contains(&ConfigResource::topic("letters")), "{listed:?}");
    assert!(listed.contains(&ConfigResource::broker(1)), "{listed:?}");
    let groups = admin.list_config_resources([ResourceKind::Group]).await.unwrap();
    assert_eq!(groups, [ConfigResource::group("readers")]);
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_named() {
    let broker = TestBroker::start();
    let error = only_error(admin(&broker).describe_configs([ConfigResource::broker(17)]).await);
    let expected = "broker 17: broker 17 is not in the cluster; describe the cluster to list its brokers";
    assert_eq!(error.to_string(), expected);
}

//! The cluster: log directories, leaders and features.

use milena_client::{
    admin::{ElectionType, ErrorCode, FeatureUpdate, UpgradeType},
    consumer::TopicPartition,
};

use super::{admin, code, only, only_error};
use crate::broker::TestBroker;

fn letters(number: i32) -> TopicPartition {
    TopicPartition::new("letters", number)
}

#[tokio::test]
async fn the_cluster_has_an_id_a_controller_and_brokers() {
    let broker = TestBroker::start();
    let cluster = admin(&broker).describe_cluster().await.unwrap();
    assert!(cluster.cluster_id.is_some());
    let [only] = &cluster.brokers[..] else {
        panic!("{cluster:?}")
    };
    assert_eq!(format!("{}:{}", only.node.host, only.node.port), broker.address());
    assert_eq!(
        (only.node.id, only.fenced, cluster.controller.as_ref()),
        (1, false, Some(&only.node))
    );
}

#[tokio::test]
async fn directories_tell_what_is_in_them() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    let admin = admin(&broker);
    let dirs = only(admin.describe_all_log_dirs().await.unwrap());
    assert_eq!((dirs.len(), dirs[0].error), (1, None));
    let replica = dirs[0].replicas[&letters(0)];
    assert!(replica.size_bytes > 0 && !replica.future, "{replica:?}");
    let again = only(admin.describe_log_dirs([1]).await);
    assert_eq!((&again[0].path, &again[0].replicas), (&dirs[0].path, &dirs[0].replicas));
}

#[tokio::test]
async fn with_one_broker_all_leaders_are_right_and_nothing_moves() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    let admin = admin(&broker);
    let elected = admin
        .elect_leaders(ElectionType::Preferred, [letters(0), letters(9)])
        .await;
    assert_eq!(code(&elected[&letters(0)]), Some(ErrorCode::ElectionNotNeeded));
    assert_eq!(code(&elected[&letters(9)]), Some(ErrorCode::UnknownTopicOrPartition));
    assert!(
        admin
            .elect_all_leaders(ElectionType::Preferred)
            .await
            .unwrap()
            .values()
            .all(Result::is_ok)
    );
    assert!(admin.list_reassignments([]).await.unwrap().is_empty());
    assert!(admin.list_reassignments([letters(0)]).await.unwrap().is_empty());
    let cancelled = only_error(admin.alter_reassignments([(letters(0), None)]).await);
    assert_eq!(cancelled.code(), Some(ErrorCode::NoReassignmentInProgress));
    let elsewhere = admin.alter_reassignments([(letters(0), Some(vec![7]))]).await;
    assert!(only_error(elsewhere).code().is_some());
}

#[tokio::test]
async fn features_are_described_and_updated() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    let features = admin.describe_features().await.unwrap();
    assert!(features.finalized["transaction.version"].max >= 2, "{features:?}");
    assert!(features.supported.contains_key("transaction.version"));
    let update = |version| FeatureUpdate {
        version,
        upgrade_type: UpgradeType::SafeDowngrade,
    };
    let updated = admin.update_features([("transaction.version", update(1))]).await;
    assert!(updated.values().all(Result::is_ok), "{updated:?}");
    let features = admin.describe_features().await.unwrap();
    assert_eq!(features.finalized["transaction.version"].max, 1);
    let error = only_error(admin.update_features([("share.version", update(1))]).await);
    assert_eq!(error.code(), Some(ErrorCode::InvalidUpdateVersion), "{error}");
}

//! Records: delete from the start, and offsets by time.

use milena_client::{
    admin::{ErrorCode, ListedOffset, OffsetSpec},
    config::IsolationLevel,
    consumer::TopicPartition,
};

use super::{admin, code, only, only_error, transactions::open_transaction};
use crate::broker::TestBroker;

fn letters(number: i32) -> TopicPartition {
    TopicPartition::new("letters", number)
}

#[tokio::test]
async fn records_are_found_by_place_and_by_time() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    broker.produce("letters", 0, &["a", "b", "c"]);
    let admin = admin(&broker);
    for (spec, expected) in [
        (OffsetSpec::Earliest, Some(0)),
        (OffsetSpec::Latest, Some(3)),
        (OffsetSpec::Timestamp(0), Some(0)),
        (OffsetSpec::Timestamp(4_000_000_000_000), None),
        (OffsetSpec::EarliestLocal, Some(0)),
    ] {
        let found = only(admin.list_offsets([(letters(0), spec)]).await);
        assert_eq!(found.map(|found| found.offset), expected, "{spec:?}");
    }
    let newest = only(admin.list_offsets([(letters(0), OffsetSpec::MaxTimestamp)]).await);
    assert!(
        newest.is_some_and(|found: ListedOffset| found.timestamp.is_some()),
        "{newest:?}"
    );
    let several = admin
        .list_offsets([(letters(0), OffsetSpec::Latest), (letters(1), OffsetSpec::Latest)])
        .await;
    assert_eq!(several[&letters(1)].as_ref().unwrap().unwrap().offset, 0);
}

#[tokio::test]
async fn what_is_committed_ends_where_a_transaction_is_open() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    open_transaction(&broker, "payments", &letters(0));
    let admin = admin(&broker);
    let ends = |level| admin.list_offsets_at([(letters(0), OffsetSpec::Latest)], level);
    assert_eq!(only(ends(IsolationLevel::ReadCommitted).await).unwrap().offset, 1);
    assert_eq!(only(ends(IsolationLevel::ReadUncommitted).await).unwrap().offset, 2);
}

#[tokio::test]
async fn records_are_deleted_up_to_an_offset_or_all() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    broker.produce("letters", 0, &["a", "b", "c"]);
    broker.produce("letters", 1, &["x"]);
    let admin = admin(&broker);
    let deleted = admin.delete_records([(letters(0), Some(2)), (letters(1), None)]).await;
    assert_eq!(*deleted[&letters(0)].as_ref().unwrap(), 2);
    assert_eq!(*deleted[&letters(1)].as_ref().unwrap(), 1);
    let begins = only(admin.list_offsets([(letters(0), OffsetSpec::Earliest)]).await);
    assert_eq!(begins.unwrap().offset, 2);
    let beyond = only_error(admin.delete_records([(letters(0), Some(9))]).await);
    assert_eq!(beyond.code(), Some(ErrorCode::OffsetOutOfRange));
    assert!(
        beyond
            .to_string()
            .starts_with("partition letters-0: OFFSET_OUT_OF_RANGE"),
        "{beyond}"
    );
    let nowhere = admin.delete_records([(TopicPartition::new("words", 0), None)]).await;
    assert_eq!(
        code(nowhere.values().next().unwrap()),
        Some(ErrorCode::UnknownTopicOrPartition)
    );
}

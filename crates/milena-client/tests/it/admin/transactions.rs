//! Transactions and producers.

use std::time::Duration;

use milena_client::{
    admin::{AbortTransaction, Admin, ErrorCode, OffsetSpec, TransactionFilter},
    config::IsolationLevel,
    consumer::TopicPartition,
};
use milena_wire::{
    compression::Codec,
    messages::{InitProducerIdRequest, ProduceRequest},
    records::{Attributes, BatchOptions},
};

use super::{admin, code, only};
use crate::{
    broker::TestBroker,
    client::{batch_with, produce_request},
};

/// Writes one record in a transaction and leaves it open. Returns the producer id.
pub(super) fn open_transaction(broker: &TestBroker, id: &str, partition: &TopicPartition) -> i64 {
    let mut client = broker.client();
    let request = InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let producer = client.call(&request, 5);
    assert_eq!(producer.error_code, 0, "{producer:?}");
    let options = BatchOptions {
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        base_sequence: 0,
        attributes: Attributes::default().with_transactional(true),
        ..Default::default()
    };
    let records = batch_with(&["open"], Codec::None, options);
    let request = ProduceRequest {
        transactional_id: Some(id.into()),
        ..produce_request(&partition.topic, partition.partition, records)
    };
    let response = client.call(&request, 12);
    assert_eq!(
        response.responses[0].partition_responses[0].error_code, 0,
        "{response:?}"
    );
    producer.producer_id
}

fn letters() -> TopicPartition {
    TopicPartition::new("letters", 0)
}

/// The last stable offset.
async fn stable_end(admin: &Admin) -> i64 {
    let end = [(letters(), OffsetSpec::Latest)];
    only(admin.list_offsets_at(end, IsolationLevel::ReadCommitted).await)
        .unwrap()
        .offset
}

#[tokio::test]
async fn transactions_are_listed_described_and_fenced_off() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let admin = admin(&broker);
    assert_eq!(
        admin
            .list_transactions(TransactionFilter::default())
            .await
            .unwrap()
            .found,
        []
    );
    let producer_id = open_transaction(&broker, "payments", &letters());

    let listed = admin
        .list_transactions(TransactionFilter::default())
        .await
        .unwrap()
        .all()
        .unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (&*one.transactional_id, one.producer_id, &*one.state, one.coordinator))
        .collect();
    assert_eq!(listed, [("payments", producer_id, "Ongoing", 1)]);
    let described = admin.describe_transactions(["payments", "wages"]).await;
    assert_eq!(code(&described["wages"]), Some(ErrorCode::TransactionalIdNotFound));
    let payments = described["payments"].as_ref().unwrap();
    assert_eq!(
        (&*payments.state, payments.producer_id, payments.timeout_ms),
        ("Ongoing", producer_id, 60_000)
    );
    assert_eq!(
        (&payments.partitions, payments.coordinator.id),
        (&[letters()].into(), 1)
    );
    assert!(payments.start_time_ms.is_some());

    assert_eq!(stable_end(&admin).await, 0);
    let fenced = only(admin.fence_producers(["payments"]).await);
    assert!(fenced.producer_id != producer_id || fenced.producer_epoch > payments.producer_epoch);
    assert_eq!(stable_end(&admin).await, 2, "the record and the marker of its abort");
    let after = only(admin.describe_transactions(["payments"]).await);
    assert!(after.partitions.is_empty(), "{after:?}");
}

#[tokio::test]
async fn a_list_of_transactions_can_be_narrowed_down() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let admin = admin(&broker);
    let producer_id = open_transaction(&broker, "payments", &letters());
    for (filter, count) in [
        (
            TransactionFilter {
                pattern: Some("pay.*".into()),
                ..Default::default()
            },
            1,
        ),
        (
            TransactionFilter {
                pattern: Some("wages".into()),
                ..Default::default()
            },
            0,
        ),
        (
            TransactionFilter {
                producer_ids: [producer_id + 1].into(),
                ..Default::default()
            },
            0,
        ),
        (
            TransactionFilter {
                open_for: Some(Duration::from_secs(3600)),
                ..Default::default()
            },
            0,
        ),
        (
            TransactionFilter {
                states: ["Ongoing".into()].into(),
                ..Default::default()
            },
            1,
        ),
    ] {
        let found = admin.list_transactions(filter.clone()).await.unwrap().all().unwrap();
        assert_eq!(found.len(), count, "{filter:?}");
    }
    let no_state = TransactionFilter {
        states: ["Strange".into()].into(),
        ..Default::default()
    };
    let error = admin.list_transactions(no_state).await.unwrap().all().unwrap_err();
    assert!(error.to_string().contains("there is no state Strange"), "{error}");
}

#[tokio::test]
async fn a_transaction_is_aborted_in_its_partition() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    let admin = admin(&broker);
    let producer_id = open_transaction(&broker, "payments", &letters());
    let producers = only(admin.describe_producers([letters()]).await);
    assert_eq!((producers.len(), producers[0].producer_id), (1, producer_id));
    assert_eq!(
        (producers[0].last_sequence, producers[0].transaction_start_offset),
        (0, Some(0))
    );
    let hanging = AbortTransaction {
        partition: letters(),
        producer_id,
        producer_epoch: i16::try_from(producers[0].producer_epoch).unwrap(),
        coordinator_epoch: producers[0].coordinator_epoch.unwrap_or(0),
    };
    admin.abort_transaction(hanging.clone()).await.unwrap();
    assert_eq!(stable_end(&admin).await, 2);
    let producers = only(admin.describe_producers([letters()]).await);
    assert_eq!(producers[0].transaction_start_offset, None);
    let nowhere = AbortTransaction {
        partition: TopicPartition::new("words", 0),
        ..hanging
    };
    let error = admin.abort_transaction(nowhere).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(error.item(), "transaction in words-0");
}

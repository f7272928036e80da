//! Transactions of Java producers.

use milena_client::{
    admin::{AbortTransaction, Admin, ErrorCode, OffsetSpec, TransactionFilter},
    config::IsolationLevel,
    consumer::TopicPartition,
};

use super::{admin, has_all, only, tool};
use crate::bed;

/// The last stable offset.
async fn stable_end(admin: &Admin, partition: &TopicPartition) -> i64 {
    let end = [(partition.clone(), OffsetSpec::Latest)];
    only(admin.list_offsets_at(end, IsolationLevel::ReadCommitted).await)
        .unwrap()
        .offset
}

#[tokio::test]
async fn a_producer_of_java_is_described_and_fenced_off() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let topic = bed.topic("paid", 1, "").await;
    let partition = TopicPartition::new(&*topic, 0);
    let id = format!("payments-{topic}");
    bed.peer.call(&format!("begin {id}")).await;
    bed.peer.call(&format!("write {id} {topic}-0 0 5")).await;
    let listed = admin
        .list_transactions(TransactionFilter::default())
        .await
        .unwrap()
        .all()
        .unwrap();
    let listed = listed.iter().find(|one| *one.transactional_id == *id).unwrap();
    assert_eq!(&*listed.state, "Ongoing");
    let described = only(admin.describe_transactions([&*id]).await);
    assert_eq!(
        (described.producer_id, &described.partitions),
        (listed.producer_id, &[partition.clone()].into())
    );
    let output = tool(bed, &format!("transactions describe --transactional-id {id}")).await;
    has_all(
        &output,
        &[&described.producer_id.to_string(), "Ongoing", &partition.to_string()],
    );
    let producers = only(admin.describe_producers([partition.clone()]).await);
    assert_eq!(producers[0].transaction_start_offset, Some(0));
    assert_eq!(stable_end(&admin, &partition).await, 0);

    only(admin.fence_producers([&*id]).await);
    assert_eq!(
        stable_end(&admin, &partition).await,
        6,
        "five records and the marker of their abort"
    );
    let output = tool(bed, &format!("transactions describe --transactional-id {id}")).await;
    assert!(!output.contains("Ongoing"), "{output}");
    let nobody = admin.describe_transactions(["nobody"]).await;
    assert_eq!(
        nobody["nobody"].as_ref().unwrap_err().code(),
        Some(ErrorCode::TransactionalIdNotFound)
    );
}

#[tokio::test]
async fn a_transaction_of_java_is_aborted_in_its_partition() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let topic = bed.topic("hanging", 1, "").await;
    let partition = TopicPartition::new(&*topic, 0);
    let id = format!("hanging-{topic}");
    bed.peer.call(&format!("begin {id}")).await;
    bed.peer.call(&format!("write {id} {topic}-0 0 3")).await;
    let producers = only(admin.describe_producers([partition.clone()]).await);
    let hanging = AbortTransaction {
        partition: partition.clone(),
        producer_id: producers[0].producer_id,
        producer_epoch: i16::try_from(producers[0].producer_epoch).unwrap(),
        coordinator_epoch: producers[0].coordinator_epoch.unwrap_or(0),
    };
    admin.abort_transaction(hanging).await.unwrap();
    assert_eq!(stable_end(&admin, &partition).await, 4);
    let producers = only(admin.describe_producers([partition]).await);
    assert_eq!(producers[0].transaction_start_offset, None);
}

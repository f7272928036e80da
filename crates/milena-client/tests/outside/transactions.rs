//! Transactions of Kafka's producer, read with `read_committed` and with `read_uncommitted`.

use milena_client::consumer::{Consumer, TopicPartition};

use crate::{
    bed::{self, Bed},
    patience::{in_time, read},
    records::{content, content_of},
};

#[tokio::test]
async fn only_what_was_committed_is_read_from_kafka() {
    transactions(bed::kafka()).await;
}

#[tokio::test]
async fn only_what_was_committed_is_read_from_our_broker() {
    transactions(bed::ours()).await;
}

/// A topic with interleaved transactions of two producers, by offset:
///
/// 0–9 committed by the first, 10 its marker; 11–15 of the second, aborted; 16–20 of the first between them, committed;
/// 21 and 22 the markers; 23–24 without a transaction; 25–34 aborted, 35 its marker.
async fn written(bed: &Bed) -> TopicPartition {
    let topic = bed.topic("transactions", 1, "").await;
    let partition = format!("{topic}-0");
    let (one, other) = (format!("{topic}-one"), format!("{topic}-other"));
    let between = [
        format!("begin {one}"),
        format!("write {one} {partition} 0 10"),
        format!("commit {one}"),
        format!("begin {one}"),
        format!("begin {other}"),
        format!("write {other} {partition} 100 5"),
        format!("write {one} {partition} 10 5"),
        format!("abort {other}"),
        format!("commit {one}"),
    ];
    let last = [
        format!("send {partition} none 15 2"),
        format!("begin {other}"),
        format!("write {other} {partition} 200 10"),
        format!("abort {other}"),
    ];
    let place = TopicPartition::new(&*topic, 0);
    for (steps, end) in [(&between[..], 23), (&last[..], 36)] {
        for step in steps {
            bed.peer.call(step).await;
        }
        wait_for_markers(bed, &place, end).await;
    }
    place
}

/// Kafka reports the end of a transaction before its markers are written.
async fn wait_for_markers(bed: &Bed, partition: &TopicPartition, end: i64) {
    let config = bed.config().set("isolation.level", "read_committed");
    let mut consumer = Consumer::new(config).unwrap();
    in_time("the markers are written", async {
        while consumer.end_offsets([partition]).await.unwrap()[partition] != end {}
    })
    .await;
}

async fn transactions(bed: &Bed) {
    let partition = written(bed).await;
    let partitions = std::slice::from_ref(&partition);
    let offsets: Vec<i64> = (0..10).chain(16..21).chain(23..25).collect();
    let committed = ("isolation.level", "read_committed");
    for settings in [&[committed][..], &[committed, ("max.poll.records", "1")][..]] {
        let mut consumer = bed.reader(partitions, settings);
        let found = read(&mut consumer, 17, |record| (record.offset(), content_of(record))).await;
        assert_eq!(found.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), offsets);
        for (number, (_, found)) in found.into_iter().enumerate() {
            assert_eq!(found, content(number));
        }
        // The position moves past records that are not delivered.
        in_time("the position passes the last marker", async {
            while consumer.position(&partition).await.unwrap().offset != 36 {
                assert!(consumer.poll(crate::patience::SHORT).await.unwrap().is_empty());
            }
        })
        .await;
        assert_eq!(consumer.current_lag(&partition).unwrap(), Some(0));
    }
    let mut consumer = bed.reader(partitions, &[]);
    let found = read(&mut consumer, 32, |record| record.offset()).await;
    let all: Vec<i64> = (0..36).filter(|offset| ![10, 21, 22, 35].contains(offset)).collect();
    assert_eq!(found, all, "markers are never delivered");
    an_open_transaction_is_the_end(bed, &partition).await;
    a_group_goes_on_behind_markers(bed, &partition).await;
}

async fn an_open_transaction_is_the_end(bed: &Bed, partition: &TopicPartition) {
    let id = format!("{}-open", partition.topic);
    bed.peer.call(&format!("begin {id}")).await;
    bed.peer.call(&format!("write {id} {partition} 17 3")).await;
    bed.send(&partition.topic, partition.partition, "none", 50, 1).await;
    let partitions = std::slice::from_ref(partition);
    let mut careful = bed.reader(partitions, &[("isolation.level", "read_committed")]);
    let mut other = bed.reader(partitions, &[]);
    let ends = in_time("ends", careful.end_offsets(partitions)).await.unwrap();
    assert_eq!(ends[partition], 36, "the last stable offset");
    let ends = in_time("ends", other.end_offsets(partitions)).await.unwrap();
    assert_eq!(ends[partition], 40);
    careful.seek_to_end(partitions).unwrap();
    assert_eq!(
        in_time("position", careful.position(partition)).await.unwrap().offset,
        36
    );
    careful.seek(partition, 0).unwrap();
    read(&mut careful, 17, |_| ()).await;
    other.seek(partition, 36).unwrap();
    assert_eq!(read(&mut other, 4, |record| record.offset()).await, [36, 37, 38, 39]);
    // The `read_committed` consumer gets nothing before the transaction ends.
    assert!(careful.poll(crate::patience::SHORT).await.unwrap().is_empty());
    bed.peer.call(&format!("commit {id}")).await;
    assert_eq!(read(&mut careful, 4, |record| record.offset()).await, [36, 37, 38, 39]);
}

/// The last records are aborted: the committed offset is behind their marker.
async fn a_group_goes_on_behind_markers(bed: &Bed, partition: &TopicPartition) {
    let id = format!("{}-last", partition.topic);
    bed.peer.call(&format!("begin {id}")).await;
    bed.peer.call(&format!("write {id} {partition} 60 3")).await;
    bed.peer.call(&format!("abort {id}")).await;
    for protocol in ["classic", "consumer"] {
        let group = format!("{}-{protocol}", partition.topic);
        let config = bed
            .config()
            .group_id(&group)
            .set("group.protocol", protocol)
            .set("isolation.level", "read_committed");
        let mut consumer = Consumer::new(config).unwrap();
        consumer.subscribe([&*partition.topic]).unwrap();
        read(&mut consumer, 21, |_| ()).await;
        in_time("the position passes the last marker", async {
            while consumer.position(partition).await.unwrap().offset != 45 {
                assert!(consumer.poll(crate::patience::SHORT).await.unwrap().is_empty());
            }
        })
        .await;
        consumer.close().await.unwrap();
        let output = bed.peer.call(&format!("offsets {group}")).await;
        assert_eq!(output, format!("{partition}=45:"));
    }
}

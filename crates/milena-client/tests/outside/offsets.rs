//! Seeks, offset queries, and `auto.offset.reset`.

use std::slice;

use milena_client::consumer::{Consumer, FetchError, PollError, TopicPartition};

use crate::{
    bed::{self, Bed},
    patience::{in_time, read},
    records::timestamp,
};

#[tokio::test]
async fn offsets_are_found_in_kafka() {
    offsets(bed::kafka()).await;
}

#[tokio::test]
async fn offsets_are_found_in_our_broker() {
    offsets(bed::ours()).await;
}

/// A partition with the records 5 to 99; those before are deleted.
async fn offsets(bed: &Bed) {
    // Retention would delete records of 2020.
    let topic = bed.topic("offsets", 2, "retention.ms=-1").await;
    bed.send(&topic, 0, "lz4", 0, 60).await;
    bed.send(&topic, 0, "none", 60, 40).await;
    bed.peer.call(&format!("trim {topic}-0 5")).await;
    let full = TopicPartition::new(&*topic, 0);
    let empty = TopicPartition::new(&*topic, 1);
    questions(bed, &full, &empty).await;
    seeks(bed, &full).await;
    policies(bed, &full, &empty).await;
}

async fn questions(bed: &Bed, full: &TopicPartition, empty: &TopicPartition) {
    let mut consumer = Consumer::new(bed.config()).unwrap();
    let both = [full.clone(), empty.clone()];
    let found = in_time("beginnings", consumer.beginning_offsets(&both)).await.unwrap();
    assert_eq!((found[full], found[empty]), (5, 0));
    let found = in_time("ends", consumer.end_offsets(&both)).await.unwrap();
    assert_eq!((found[full], found[empty]), (100, 0));
    // Inside a compressed batch, between two records, at the end, and after it.
    for (time, expected) in [
        (timestamp(33), Some(33)),
        (timestamp(33) + 1, Some(34)),
        (timestamp(99) + 1, None),
    ] {
        let times = [(full.clone(), time), (empty.clone(), time)];
        let found = in_time("times", consumer.offsets_for_times(times)).await.unwrap();
        assert_eq!(found.get(full).map(|found| found.offset), expected);
        if let Some(found) = found.get(full) {
            assert_eq!(found.timestamp, timestamp(usize::try_from(found.offset).unwrap()));
            assert_eq!(found.leader_epoch, Some(0));
        }
        assert!(!found.contains_key(empty));
    }
    let error = in_time("times", consumer.offsets_for_times([(full.clone(), -1)])).await;
    assert!(error.is_err());
}

async fn seeks(bed: &Bed, full: &TopicPartition) {
    let partitions = slice::from_ref(full);
    let mut consumer = bed.reader(partitions, &[("max.poll.records", "10")]);
    let next = async |consumer: &mut Consumer| read(consumer, 1, |record| record.offset()).await[0];
    assert_eq!(next(&mut consumer).await, 5);
    // Inside a compressed batch, back, and from the end.
    for offset in [41, 7, 98, 6] {
        consumer.seek(full, offset).unwrap();
        assert_eq!(next(&mut consumer).await, offset);
    }
    consumer.seek_to_end(partitions).unwrap();
    assert_eq!(in_time("position", consumer.position(full)).await.unwrap().offset, 100);
    assert!(consumer.poll(crate::patience::SHORT).await.unwrap().is_empty());
    consumer.seek_to_beginning(partitions).unwrap();
    assert_eq!(next(&mut consumer).await, 5);
    let found = in_time("times", consumer.offsets_for_times([(full.clone(), timestamp(77))]))
        .await
        .unwrap();
    consumer.seek(full, found[full].offset).unwrap();
    assert_eq!(next(&mut consumer).await, 77);
    // The epoch matches the broker's.
    let position = in_time("position", consumer.position(full)).await.unwrap();
    consumer.seek_position(full, position).unwrap();
    assert_eq!(next(&mut consumer).await, position.offset);
}

async fn policies(bed: &Bed, full: &TopicPartition, empty: &TopicPartition) {
    let partitions = slice::from_ref(full);
    // Offset 3 was deleted, 1000 was never written.
    for bad in [3, 1000] {
        for (policy, expected) in [("earliest", 5), ("latest", 100), ("by_duration:P3650D", 5)] {
            let mut consumer = bed.reader(partitions, &[("auto.offset.reset", policy)]);
            consumer.seek(full, bad).unwrap();
            in_time("the policy decides", async {
                while consumer.position(full).await.unwrap().offset == bad {
                    consumer.poll(crate::patience::SHORT).await.unwrap();
                }
            })
            .await;
            let position = in_time("position", consumer.position(full)).await.unwrap().offset;
            assert!(position >= expected, "{policy}, {bad}: {position}");
            consumer.seek(full, bad).unwrap();
            if expected == 5 {
                assert_eq!(read(&mut consumer, 1, |record| record.offset()).await[0], 5, "{policy}");
            }
        }
        let mut consumer = bed.reader(partitions, &[("auto.offset.reset", "none")]);
        consumer.seek(full, bad).unwrap();
        let expected = FetchError::OffsetOutOfRange {
            partition: full.clone(),
            offset: bad,
        };
        assert_eq!(fetch_error(&mut consumer).await, expected);
        consumer.seek(full, 50).unwrap();
        assert_eq!(read(&mut consumer, 1, |record| record.offset()).await[0], 50);
    }
    // There is no committed offset.
    let mut consumer = bed.reader(
        slice::from_ref(empty),
        &[("auto.offset.reset", "none"), ("group.id", "nobody")],
    );
    let expected = FetchError::NoOffset {
        partition: empty.clone(),
    };
    assert_eq!(fetch_error(&mut consumer).await, expected);
    // All records are from 2020, so nothing is younger than an hour and reading starts at the end.
    for (policy, expected) in [("latest", 100), ("by_duration:PT1H", 100), ("by_duration:P3650D", 5)] {
        let mut consumer = bed.reader(partitions, &[("auto.offset.reset", policy)]);
        let position = in_time("position", consumer.position(full)).await.unwrap();
        assert_eq!(position.offset, expected, "{policy}");
    }
}

async fn fetch_error(consumer: &mut Consumer) -> FetchError {
    in_time("an error", async {
        loop {
            match consumer.poll(crate::patience::SHORT).await {
                Ok(records) => assert!(records.is_empty()),
                Err(PollError::Fetch(error)) => return error,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

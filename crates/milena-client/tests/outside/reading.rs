//! Records of Kafka's producer, read by our consumer.

use milena_client::consumer::{Consumer, TimestampType, TopicPartition};

use crate::{
    bed::{self, Bed},
    patience::{in_time, read},
    records::{assert_is, content, content_of},
};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
/// Enough for several batches of each codec.
const PER_CODEC: usize = 400;

#[tokio::test]
async fn records_of_every_codec_are_read_from_kafka() {
    every_codec(bed::kafka()).await;
}

#[tokio::test]
async fn records_of_every_codec_are_read_from_our_broker() {
    every_codec(bed::ours()).await;
}

async fn every_codec(bed: &Bed) {
    let topic = bed.topic("codecs", 2, "").await;
    for (place, codec) in CODECS.into_iter().enumerate() {
        for partition in 0..2 {
            bed.send(&topic, partition, codec, place * PER_CODEC, PER_CODEC).await;
        }
    }
    let both = [TopicPartition::new(&*topic, 0), TopicPartition::new(&*topic, 1)];
    // As much as possible, in small polls, and as a group of both protocols.
    check_all(&mut bed.reader(&both, &[])).await;
    let small = [
        ("max.poll.records", "7"),
        ("max.partition.fetch.bytes", "1024"),
        ("fetch.max.bytes", "2048"),
    ];
    check_all(&mut bed.reader(&both, &small)).await;
    for protocol in ["classic", "consumer"] {
        let config = bed
            .config()
            .group_id(format!("{topic}-{protocol}"))
            .set("group.protocol", protocol);
        let mut consumer = Consumer::new(config).unwrap();
        consumer.subscribe([topic.as_str()]).unwrap();
        check_all(&mut consumer).await;
        consumer.close().await.unwrap();
    }
}

async fn check_all(consumer: &mut Consumer) {
    let total = CODECS.len() * PER_CODEC;
    let mut next = [0, 0];
    let deadline = tokio::time::Instant::now() + crate::patience::PATIENCE;
    while next != [total, total] {
        assert!(tokio::time::Instant::now() < deadline, "read up to {next:?}");
        let records = consumer.poll(crate::patience::SHORT).await.unwrap();
        for record in &records {
            let place = usize::try_from(record.partition()).unwrap();
            assert_is(record, next[place]);
            next[place] += 1;
        }
    }
}

#[tokio::test]
async fn the_log_append_time_is_marked_as_such() {
    for bed in [bed::kafka(), bed::ours()] {
        let topic = bed.topic("appended", 1, "message.timestamp.type=LogAppendTime").await;
        bed.send(&topic, 0, "lz4", 0, 50).await;
        let partition = TopicPartition::new(&*topic, 0);
        let mut consumer = bed.reader(std::slice::from_ref(&partition), &[]);
        let records = read(&mut consumer, 50, |record| {
            (record.timestamp(), record.timestamp_type(), content_of(record))
        })
        .await;
        for (number, (timestamp, kind, found)) in records.into_iter().enumerate() {
            assert_eq!(kind, TimestampType::LogAppendTime);
            assert_eq!(found, content(number));
            // The producer's timestamp is from 2020.
            assert!(timestamp > 1_700_000_000_000, "{timestamp}");
        }
        // The broker finds records by the same times.
        let found = in_time(
            "offsets",
            consumer.offsets_for_times([(partition.clone(), 1_650_000_000_000)]),
        )
        .await;
        assert_eq!(found.unwrap()[&partition].offset, 0);
    }
}

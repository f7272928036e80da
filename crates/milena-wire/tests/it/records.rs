//! Record batches: round trips, odd shapes, damage.

use bytes::Bytes;
use milena_wire::{
    compression::{Codec, Compression, Compressor},
    pool::BufferPool,
    records::*,
};
use proptest::{collection::vec, option, prelude::*};

use crate::arbitrary::Source;

fn decoder() -> RecordDecoder {
    RecordDecoder::new(BufferPool::new(1 << 20), 1 << 24)
}

#[derive(Debug, Clone)]
struct Plain {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn plain() -> impl Strategy<Value = Plain> {
    let bytes = || vec(any::<u8>(), 0..40);
    (
        any::<i64>(),
        option::of(bytes()),
        option::of(bytes()),
        vec((bytes(), option::of(bytes())), 0..4),
    )
        .prop_map(|(timestamp, key, value, headers)| Plain {
            timestamp,
            key,
            value,
            headers,
        })
}

fn build(records: &[Plain], options: BatchOptions) -> BatchBuilder {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let headers: Vec<Header<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| Header {
                key,
                value: value.as_deref(),
            })
            .collect();
        let new = NewRecord {
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let announced = builder.size_with(&new);
        builder.append(&new).unwrap();
        assert_eq!(builder.size(), announced);
    }
    builder
}

fn only_batch(bytes: Bytes) -> Batch {
    let mut batches = Batches::new(bytes);
    let batch = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none());
    batch
}

proptest! {
    #[test]
    fn records_survive_every_codec(records in vec(plain(), 0..30), base_offset in 0..i64::MAX / 2) {
        let options = BatchOptions { base_offset, ..BatchOptions::default() };
        for codec in Codec::ALL {
            let mut compressor = Compressor::new(Compression::from(codec));
            let (bytes, _) = build(&records, options).finish_compressed(&mut compressor).unwrap();
            let batch = only_batch(bytes);
            batch.verify().unwrap();
            prop_assert_eq!(batch.last_offset(), base_offset + records.len() as i64 - 1);
            let mut set = RecordSet::default();
            batch.decode_into(&mut decoder(), &mut set).unwrap();
            prop_assert_eq!(set.len(), records.len());
            for (place, (read, written)) in set.iter().zip(&records).enumerate() {
                prop_assert_eq!(read.offset(), base_offset + place as i64);
                prop_assert_eq!(read.timestamp(), written.timestamp);
                prop_assert_eq!(read.key(), written.key.as_deref());
                prop_assert_eq!(read.value(), written.value.as_deref());
                let headers: Vec<_> = read.headers().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
                prop_assert_eq!(&headers, &written.headers);
                let kept = read.to_owned();
                for owned in [kept.detach(), kept] {
                    prop_assert_eq!((owned.offset(), owned.timestamp()), (read.offset(), read.timestamp()));
                    prop_assert_eq!((owned.key(), owned.value()), (read.key(), read.value()));
                    prop_assert_eq!(owned.headers().collect::<Vec<_>>(), read.headers().collect::<Vec<_>>());
                }
            }
        }
    }
}

fn small_batch() -> Bytes {
    let headers = [
        Header::new("h", b"1"),
        Header {
            key: b"\xff",
            value: None,
        },
    ];
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: 100,
        ..BatchOptions::default()
    });
    for i in 0..3 {
        let value = [b'v', i];
        builder
            .append(&NewRecord {
                timestamp: i64::from(i),
                key: Some(b"key"),
                value: Some(&value),
                headers: &headers,
            })
            .unwrap();
    }
    builder.finish()
}

#[test]
fn a_partial_batch_at_the_end_is_left_over() {
    let batch = small_batch();
    let two = Bytes::from([&batch[..], &batch[..]].concat());
    for length in 0..two.len() {
        let mut batches = Batches::new(two.slice(..length));
        let whole = batches.by_ref().map(Result::unwrap).count();
        assert_eq!(whole, length / batch.len());
        assert_eq!(batches.leftover(), length % batch.len());
    }
}

#[test]
fn records_below_the_wanted_offset_can_be_passed_over() {
    let mut set = RecordSet::default();
    only_batch(small_batch()).decode_into(&mut decoder(), &mut set).unwrap();
    let offsets: Vec<i64> = set.iter_from(101).map(|record| record.offset()).collect();
    assert_eq!(offsets, [101, 102]);
}

#[test]
fn a_changed_byte_is_noticed() {
    let good = small_batch();
    for place in 0..good.len() {
        let mut bad = good.to_vec();
        bad[place] ^= 1;
        let noticed = match Batches::new(bad.into()).next() {
            None | Some(Err(_)) => true,
            Some(Ok(batch)) => batch.verify().is_err(),
        };
        // Base offset and leader epoch lie outside the checksum, so that a broker can set them.
        let outside = place < 8 || (12..16).contains(&place);
        assert_eq!(noticed, !outside, "byte {place}");
    }
}

#[test]
fn patches_outside_the_checksum_leave_it_alone() {
    let mut bytes = small_batch().to_vec();
    let crc = bytes[17..21].to_vec();
    assert!(patch_header(&mut bytes, |header| {
        header.base_offset = 7_000;
        header.partition_leader_epoch = 3;
    }));
    assert_eq!(bytes[17..21], crc);
    only_batch(bytes.clone().into()).verify().unwrap();

    assert!(patch_header(&mut bytes, |header| {
        header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        header.max_timestamp = 999;
    }));
    assert_ne!(bytes[17..21], crc);
    let batch = only_batch(bytes.into());
    batch.verify().unwrap();
    let mut set = RecordSet::default();
    batch.decode_into(&mut decoder(), &mut set).unwrap();
    assert!(set.iter().all(|record| record.timestamp() == 999));
    assert_eq!(set.get(0).unwrap().offset(), 7_000);
    assert!(!patch_header(&mut [0; 60], |_| {}));
}

#[test]
fn end_of_transaction_markers_are_control_records() {
    for marker in [
        ControlRecord::Commit { coordinator_epoch: 5 },
        ControlRecord::Abort { coordinator_epoch: 6 },
    ] {
        let bytes = marker.end_transaction_batch(1_000, 77, 3).unwrap().unwrap();
        let Batch::V2(batch) = only_batch(bytes) else {
            panic!("not of format 2")
        };
        batch.verify().unwrap();
        let header = *batch.header();
        assert!(header.attributes.is_control() && header.attributes.is_transactional());
        assert_eq!(
            (header.producer_id, header.producer_epoch, header.base_sequence),
            (77, 3, NO_SEQUENCE)
        );
        let mut set = RecordSet::default();
        batch.decode_into(&mut decoder(), &mut set).unwrap();
        assert_eq!(ControlRecord::parse(&set.get(0).unwrap()), Ok(marker));
    }
}

#[test]
fn a_closed_batch_is_sealed_for_any_producer_as_if_it_had_been_known() {
    let record = NewRecord {
        value: Some(b"value"),
        ..NewRecord::default()
    };
    for codec in [Codec::None, Codec::Lz4] {
        let mut compressor = Compressor::new(Compression::from(codec));
        let build = |options: BatchOptions| {
            let mut builder = BatchBuilder::new(options);
            builder.append(&record).unwrap();
            builder
        };
        let (mut closed, _) = build(BatchOptions::default())
            .close_compressed(&mut compressor)
            .unwrap();
        let mut sealed = vec![];
        for (producer_id, base_sequence, transactional) in [(7, 0, false), (8, 40, true)] {
            let options = BatchOptions {
                producer_id,
                producer_epoch: 3,
                base_sequence,
                attributes: Attributes::default().with_transactional(transactional),
                ..BatchOptions::default()
            };
            let (expected, _) = build(options).finish_compressed(&mut compressor).unwrap();
            let producer = BatchProducer {
                producer_id,
                producer_epoch: 3,
                base_sequence,
                transactional,
            };
            assert_eq!(closed.seal(producer), expected);
            assert_eq!(closed.size(), expected.len());
            sealed.push((closed.seal(producer), expected));
        }
        // References to the first bytes stay valid.
        assert!(sealed.iter().all(|(sealed, expected)| sealed == expected));
        assert_eq!(closed.into_buffer(), None);
    }
}

#[test]
fn offsets_in_a_batch_only_grow() {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let record = NewRecord::default();
    builder.append_at(5, &record).unwrap();
    assert_eq!(
        builder.append_at(5, &record),
        Err(AppendError::OutOfOrder {
            offset_delta: 5,
            last: 5
        })
    );
    builder.append(&record).unwrap();
    let mut set = RecordSet::default();
    only_batch(builder.finish())
        .decode_into(&mut decoder(), &mut set)
        .unwrap();
    assert_eq!(set.iter().map(|record| record.offset()).collect::<Vec<_>>(), [5, 6]);
}

/// Recomputes the checksum, so that damage gets past its verification.
fn reseal(bytes: &mut [u8]) {
    patch_header(bytes, |header| header.crc ^= 1);
}

#[test]
fn damaged_batches_neither_panic_nor_allocate() {
    let plain = small_batch();
    let mut refused = 0;
    for seed in 0..30_000 {
        let mut source = Source::new(seed);
        let mut bytes = plain.to_vec();
        for _ in 0..1 + source.below(3) {
            let place = source.below(bytes.len());
            bytes[place] = if source.below(2) == 0 {
                0xff
            } else {
                source.next() as u8
            };
        }
        reseal(&mut bytes);
        let bytes = Bytes::from(bytes);
        let limit = 64 << 10;
        let mut decoder = RecordDecoder::new(BufferPool::new(0), limit);
        let mut set = RecordSet::default();
        let allocated = allocation_counter::measure(|| {
            for batch in Batches::new(bytes.clone()) {
                let decoded = batch.and_then(|batch| batch.decode_into(&mut decoder, &mut set));
                refused += usize::from(decoded.is_err());
            }
        });
        for record in set.iter() {
            record.headers().count();
        }
        // Some damage turns plain records into compressed ones; a codec's own state is then the larger part.
        let allowed = (limit + (1 << 20)) as u64;
        assert!(allocated.bytes_max <= allowed, "seed {seed}: {}", allocated.bytes_max);
    }
    assert!(refused > 10_000, "{refused} refused");
}

#[test]
fn a_hostile_record_count_allocates_nothing() {
    let mut bytes = small_batch().to_vec();
    patch_header(&mut bytes, |header| header.record_count = i32::MAX);
    let batch = only_batch(bytes.into());
    batch.verify().unwrap();
    let mut decoder = decoder();
    let mut set = RecordSet::default();
    let mut outcome = Ok(());
    let allocated = allocation_counter::measure(|| outcome = batch.decode_into(&mut decoder, &mut set));
    assert_eq!(allocated.count_total, 0);
    assert!(matches!(
        outcome.unwrap_err().problem,
        BatchProblem::BadCount { count: i32::MAX, .. }
    ));
}

#[test]
fn reading_and_building_allocate_nothing_per_record() {
    let mut builder = BatchBuilder::with_buffer(BatchOptions::default(), Vec::with_capacity(1 << 20));
    let headers = [Header::new("a", b"1")];
    let record = NewRecord {
        timestamp: 1,
        key: Some(b"k"),
        value: Some(&[7; 100]),
        headers: &headers,
    };
    let allocated = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            builder.append(&record).unwrap();
        }
    });
    assert_eq!(allocated.count_total, 0);

    let batch = only_batch(builder.finish());
    let mut decoder = decoder();
    let mut set = RecordSet::default();
    batch.decode_into(&mut decoder, &mut set).unwrap();
    let allocated = allocation_counter::measure(|| {
        batch.verify().unwrap();
        batch.decode_into(&mut decoder, &mut set).unwrap();
        for record in set.iter() {
            std::hint::black_box((record.key(), record.value(), record.headers().count()));
        }
    });
    assert_eq!(allocated.count_total, 0);
}

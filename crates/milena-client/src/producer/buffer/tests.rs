use std::sync::Arc;

use milena_machines::{
    TopicPartition,
    produce::{Sender, SenderConfig},
};
use milena_wire::{
    compression::{Codec, Compression},
    records::NewRecord,
};

use super::*;

const BATCH_SIZE: usize = 1_000;
const BATCH_MAX: usize = 20_000;
const MEMORY: usize = 200_000;

fn partition() -> Partition {
    let config = SenderConfig {
        acks: -1,
        idempotent: false,
        max_in_flight: 5,
        retries: 0,
        delivery_timeout_ms: 1,
        request_timeout_ms: 1,
        retry_backoff_ms: 1,
        retry_backoff_max_ms: 1,
        max_request_bytes: 1,
        transaction: None,
    };
    let slot = Sender::new(config, 1).slot(&TopicPartition::new("t", 0));
    let place = TopicPartition {
        topic: "t".into(),
        partition: 0,
    };
    Partition::new(Arc::new(place), slot)
}

fn limits(memory: usize) -> Limits {
    Limits {
        memory: Memory::new(memory, BATCH_SIZE, BATCH_MAX),
        batch_size: BATCH_SIZE,
        batch_max: BATCH_MAX,
        compressors: Compressors::new(Compression::from(Codec::None)),
    }
}

/// Appends records until a batch is closed, and takes it. `None` if memory is exhausted before that.
fn fill(partition: &Partition, limits: &Limits) -> Option<ReadyBatch> {
    let value = [7; 90];
    let record = NewRecord {
        value: Some(&value),
        ..NewRecord::default()
    };
    loop {
        let appended = partition.append(&record, limits, false, &mut None).ok()?;
        if appended.has_closed {
            return partition.buffer().pop_closed();
        }
    }
}

fn size(ready: &ReadyBatch) -> usize {
    ready.batch.size()
}

#[test]
fn batches_grow_with_what_is_not_acknowledged_and_shrink_again() {
    let (partition, limits) = (partition(), limits(MEMORY));
    let is_about = |size: usize, expected: usize| size <= expected && size + 100 > expected;
    let first = fill(&partition, &limits).unwrap();
    assert!(is_about(size(&first), BATCH_SIZE), "{}", size(&first));
    let mut waiting = vec![first];
    while limits.memory.unacknowledged() < 4 * BATCH_MAX {
        waiting.push(fill(&partition, &limits).unwrap());
    }
    let sizes: Vec<usize> = waiting.iter().map(size).collect();
    assert!(sizes.is_sorted_by(|a, b| *a < b + 100), "{sizes:?}");
    fill(&partition, &limits).unwrap();
    let largest = fill(&partition, &limits).unwrap();
    assert!(is_about(size(&largest), BATCH_MAX), "{}", size(&largest));
    // Everything is acknowledged: the open batch is large enough to be sent, and the next one is small again.
    drop((waiting, largest));
    fill(&partition, &limits).unwrap();
    let small = fill(&partition, &limits).unwrap();
    assert!(is_about(size(&small), BATCH_SIZE), "{}", size(&small));
}

#[test]
fn a_batch_that_has_grown_is_due_when_the_others_are_acknowledged() {
    let (partition, limits) = (partition(), limits(MEMORY));
    let mut waiting = vec![];
    while limits.memory.unacknowledged() < 2 * BATCH_MAX {
        waiting.push(fill(&partition, &limits).unwrap());
    }
    let record = NewRecord::default();
    while partition.buffer().open.as_ref().unwrap().builder.size() < 3 * BATCH_SIZE {
        partition.append(&record, &limits, false, &mut None).unwrap();
    }
    let due = || partition.due(&partition.buffer(), &limits, 60_000);
    let opened_ms = partition.buffer().opened_ms().unwrap();
    assert_eq!(
        due(),
        Due::At {
            at_ms: opened_ms + 60_000
        }
    );
    waiting.clear();
    assert_eq!(due(), Due::At { at_ms: opened_ms });
}

#[test]
fn growing_batches_stay_within_the_memory() {
    let limits = limits(MEMORY);
    let partitions: Vec<Partition> = (0..30).map(|_| partition()).collect();
    let mut waiting = vec![];
    'full: loop {
        for partition in &partitions {
            match fill(partition, &limits) {
                Some(ready) => waiting.push(ready),
                None => break 'full,
            }
        }
    }
    let bytes: usize = waiting.iter().map(size).sum();
    assert!(bytes > MEMORY / 4 && bytes <= MEMORY, "{bytes}");
    drop((waiting, partitions));
    assert_eq!((limits.memory.free(), limits.memory.unacknowledged()), (MEMORY, 0));
}

#[test]
fn batches_do_not_grow_to_what_the_broker_has_refused() {
    let (partition, limits) = (partition(), limits(MEMORY));
    partition.refuse_size(8_000);
    let mut waiting = vec![];
    while limits.memory.unacknowledged() < 4 * BATCH_MAX {
        waiting.push(fill(&partition, &limits).unwrap());
    }
    let largest = waiting.iter().map(size).max().unwrap();
    assert!((3_900..=4_000).contains(&largest), "{largest}");
}

use bytes::Bytes;

use super::*;
use crate::Random;

type Key = Option<Bytes>;

const HANDLER: HandlerId = HandlerId(0);

fn queues(order: Order, null_key: NullKey, partitions: usize) -> Queues<Key> {
    let mut queues = Queues::new(1, 7);
    for partition in (0..partitions).map(PartitionIndex::at) {
        queues.add_partition(partition, HANDLER, order, null_key);
    }
    queues
}

fn add(queues: &mut Queues<Key>, partition: usize, offset: i64, key: &'static str) -> RecordIndex {
    let key = (key != "-").then(|| Bytes::from_static(key.as_bytes()));
    let index = queues.insert(PartitionIndex::at(partition), offset, 1, key).index;
    queues.enqueue(index);
    index
}

/// The offsets that are handed out.
fn take(queues: &mut Queues<Key>, max: usize, run_max: usize) -> Vec<i64> {
    let mut out = vec![];
    queues.take(HANDLER, max, run_max, &mut out);
    out.iter().map(|index| queues.entry(*index).unwrap().offset).collect()
}

fn index_of(queues: &Queues<Key>, partition: usize, offset: i64) -> RecordIndex {
    let mut all = queues.of_partition(PartitionIndex::at(partition));
    all.find(|index| queues.entry(*index).unwrap().offset == offset)
        .unwrap()
}

#[test]
fn a_key_has_one_record_out_and_other_keys_do_not_wait() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 1);
    let first = add(&mut queues, 0, 0, "a");
    add(&mut queues, 0, 1, "a");
    add(&mut queues, 0, 2, "b");
    assert_eq!(take(&mut queues, 10, 1), [0, 2]);
    assert_eq!(take(&mut queues, 10, 1), []);
    queues.remove(first);
    assert_eq!(take(&mut queues, 10, 1), [1]);
}

#[test]
fn the_same_key_of_another_partition_is_another_key() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 2);
    add(&mut queues, 0, 0, "a");
    add(&mut queues, 1, 1, "a");
    assert_eq!(take(&mut queues, 10, 1), [0, 1]);
    assert_eq!(queues.keys(), 2);
}

#[test]
fn records_without_a_key_are_unordered_or_serial() {
    for (null_key, expected) in [(NullKey::Unordered, vec![0, 1]), (NullKey::Serial, vec![0])] {
        let mut queues = queues(Order::Key, null_key, 1);
        add(&mut queues, 0, 0, "-");
        add(&mut queues, 0, 1, "-");
        assert_eq!(take(&mut queues, 10, 1), expected);
    }
    // An empty key is a key.
    let mut queues = queues(Order::Key, NullKey::Serial, 1);
    add(&mut queues, 0, 0, "-");
    add(&mut queues, 0, 1, "");
    assert_eq!(take(&mut queues, 10, 1), [0, 1]);
}

#[test]
fn a_partition_in_order_has_one_record_out() {
    let mut queues = queues(Order::Partition, NullKey::Unordered, 1);
    let first = add(&mut queues, 0, 0, "a");
    add(&mut queues, 0, 1, "b");
    assert_eq!(take(&mut queues, 10, 1), [0]);
    queues.park(first, 50);
    assert_eq!(take(&mut queues, 10, 1), []);
    assert_eq!((queues.pop_due(49), queues.pop_due(50)), (None, Some(first)));
    assert_eq!(take(&mut queues, 10, 1), [0]);
}

#[test]
fn runs_of_a_key_go_to_handlers_of_batches() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 1);
    for (offset, key) in ["a", "b", "a", "a", "a"].into_iter().enumerate() {
        add(&mut queues, 0, offset as i64, key);
    }
    assert_eq!(take(&mut queues, 4, 3), [0, 2, 3, 1]);
    // The key is free when the last of its run is back.
    for offset in [0, 2] {
        let index = index_of(&queues, 0, offset);
        queues.remove(index);
        assert_eq!(take(&mut queues, 4, 3), []);
    }
    let index = index_of(&queues, 0, 3);
    queues.put_back(index);
    assert_eq!(take(&mut queues, 4, 3), [3, 4]);
}

#[test]
fn a_parked_record_blocks_only_its_key() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 1);
    let parked = add(&mut queues, 0, 0, "a");
    add(&mut queues, 0, 1, "a");
    assert_eq!(take(&mut queues, 10, 1), [0]);
    queues.park(parked, 100);
    add(&mut queues, 0, 2, "b");
    assert_eq!(take(&mut queues, 10, 1), [2]);
    assert_eq!(queues.counts().parked, 1);
    assert_eq!(queues.next_due(), Some(100));
    queues.pop_due(100);
    assert_eq!(take(&mut queues, 10, 1), [0]);
}

#[test]
fn unordered_records_are_parked_alone() {
    let mut queues = queues(Order::Unordered, NullKey::Unordered, 1);
    let first = add(&mut queues, 0, 0, "a");
    add(&mut queues, 0, 1, "a");
    assert_eq!(take(&mut queues, 1, 1), [0]);
    queues.park(first, 100);
    assert_eq!(take(&mut queues, 10, 1), [1]);
    queues.pop_due(100);
    assert_eq!(take(&mut queues, 10, 1), [0]);
}

#[test]
fn partitions_take_turns() {
    let mut queues = queues(Order::Unordered, NullKey::Unordered, 3);
    for offset in 0..100 {
        add(&mut queues, 0, offset, "-");
    }
    for offset in 100..104 {
        add(&mut queues, 1, offset, "-");
    }
    add(&mut queues, 2, 104, "-");
    assert_eq!(take(&mut queues, 9, 1), [0, 1, 2, 100, 101, 102, 104, 3, 4]);
    assert_eq!(take(&mut queues, 1, 1), [103]);
}

#[test]
fn keys_of_a_partition_take_turns() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 1);
    for offset in 0..6 {
        add(&mut queues, 0, offset, if offset < 4 { "hot" } else { "cold" });
    }
    let mut seen = vec![];
    while let [offset] = take(&mut queues, 1, 1)[..] {
        seen.push(offset);
        let index = index_of(&queues, 0, offset);
        queues.remove(index);
    }
    assert_eq!(seen, [0, 4, 1, 5, 2, 3]);
}

#[test]
fn a_blocked_partition_waits() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 2);
    add(&mut queues, 0, 0, "a");
    add(&mut queues, 1, 1, "a");
    queues.block(PartitionIndex::at(0), true);
    assert_eq!(take(&mut queues, 10, 1), [1]);
    assert!(!queues.has_ready(HANDLER));
    queues.block(PartitionIndex::at(0), false);
    assert!(queues.has_ready(HANDLER));
    assert_eq!(take(&mut queues, 10, 1), [0]);
}

#[test]
fn a_removed_partition_leaves_nothing_behind() {
    let mut queues = queues(Order::Key, NullKey::Unordered, 1);
    let staged = queues.insert(PartitionIndex::at(0), 9, 1, None);
    let [parked, out] = [0, 1].map(|offset| add(&mut queues, 0, offset, if offset == 0 { "a" } else { "b" }));
    add(&mut queues, 0, 2, "a");
    add(&mut queues, 0, 3, "c");
    add(&mut queues, 0, 4, "-");
    let mut taken = vec![];
    queues.take(HANDLER, 2, 1, &mut taken);
    assert_eq!(taken, [parked, out]);
    queues.park(parked, 100);
    let old = RecordId {
        index: out,
        serial: queues.entry(out).unwrap().serial,
    };
    for index in queues.of_partition(PartitionIndex::at(0)).collect::<Vec<_>>() {
        queues.remove(index);
    }
    queues.remove_partition(PartitionIndex::at(0));
    assert_eq!(
        (queues.keys(), queues.counts(), queues.next_due()),
        (0, Counts::default(), None)
    );
    assert!(queues.find(old).is_none() && queues.find(staged).is_none());
    // A record that is read again is not taken for the earlier one: Parallel Consumer #875.
    queues.add_partition(PartitionIndex::at(0), HANDLER, Order::Key, NullKey::Unordered);
    add(&mut queues, 0, 1, "b");
    assert_eq!(take(&mut queues, 10, 1), [1]);
}

/// In every history a key has one record out, by offset, and all records are handed out in the end.
#[test]
fn order_holds_in_every_history() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let run_max = 1 + random.below(3) as usize;
        let mut queues = queues(Order::Key, NullKey::Serial, 2);
        let (mut now, mut offset) = (0, 0);
        let mut out: Vec<RecordIndex> = vec![];
        let mut done = [const { vec![] }; 8];
        let keys = ["a", "b", "c", "-"];
        while offset < 300 || !out.is_empty() || queues.next_due().is_some() || queues.has_ready(HANDLER) {
            now += 1;
            if offset < 300 {
                let key = keys[random.below(4) as usize];
                add(&mut queues, random.below(2) as usize, offset, key);
                offset += 1;
            }
            while queues.pop_due(now).is_some() {}
            let mut taken = vec![];
            queues.take(HANDLER, random.below(4) as usize, run_max, &mut taken);
            out.append(&mut taken);
            if out.is_empty() {
                continue;
            }
            let index = out.remove(if run_max == 1 {
                random.below(out.len() as u64) as usize
            } else {
                0
            });
            let entry = queues.entry(index).unwrap();
            if random.below(3) == 0 {
                // All records of a run come back, as from a handler that fails.
                queues.park(index, now + random.below(10) as i64);
            } else {
                let key = entry
                    .payload
                    .as_ref()
                    .unwrap()
                    .as_ref()
                    .map_or(3, |key| usize::from(key[0] - b'a'));
                done[key * 2 + entry.partition.position()].push(entry.offset);
                queues.remove(index);
            }
        }
        assert_eq!(done.iter().map(Vec::len).sum::<usize>(), 300);
        if run_max == 1 {
            assert!(done.iter().all(|offsets| offsets.is_sorted()), "seed {seed}: {done:?}");
        }
        assert_eq!((queues.keys(), queues.counts()), (0, Counts::default()));
    }
}

use bytes::Bytes;

use super::*;
use crate::Random;

type Key = Option<Bytes>;

const HANDLER: HandlerId = HandlerId(0);

fn lanes(order: Order, null_key: NullKey, partitions: u32) -> Lanes<Key> {
    let mut lanes = Lanes::new(1, 7);
    for partition in 0..partitions {
        lanes.add_partition(partition, HANDLER, order, null_key);
    }
    lanes
}

fn add(lanes: &mut Lanes<Key>, partition: u32, offset: i64, key: &'static str) -> u32 {
    let key = (key != "-").then(|| Bytes::from_static(key.as_bytes()));
    let index = lanes.insert(partition, offset, 1, key).index;
    lanes.enqueue(index);
    index
}

/// What is handed out, by offset.
fn take(lanes: &mut Lanes<Key>, max: usize, run_max: usize) -> Vec<i64> {
    let mut out = vec![];
    lanes.take(HANDLER, max, run_max, &mut out);
    out.iter().map(|index| lanes.entry(*index).unwrap().offset).collect()
}

fn index_of(lanes: &Lanes<Key>, partition: u32, offset: i64) -> u32 {
    let mut all = lanes.of_partition(partition);
    all.find(|index| lanes.entry(*index).unwrap().offset == offset).unwrap()
}

#[test]
fn a_key_has_one_record_out_and_other_keys_do_not_wait() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 1);
    let first = add(&mut lanes, 0, 0, "a");
    add(&mut lanes, 0, 1, "a");
    add(&mut lanes, 0, 2, "b");
    assert_eq!(take(&mut lanes, 10, 1), [0, 2]);
    assert_eq!(take(&mut lanes, 10, 1), []);
    lanes.remove(first);
    assert_eq!(take(&mut lanes, 10, 1), [1]);
}

#[test]
fn the_same_key_of_another_partition_is_another_key() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 2);
    add(&mut lanes, 0, 0, "a");
    add(&mut lanes, 1, 1, "a");
    assert_eq!(take(&mut lanes, 10, 1), [0, 1]);
    assert_eq!(lanes.keys(), 2);
}

#[test]
fn records_without_a_key_are_unordered_or_serial() {
    for (null_key, expected) in [(NullKey::Unordered, vec![0, 1]), (NullKey::Serial, vec![0])] {
        let mut lanes = lanes(Order::Key, null_key, 1);
        add(&mut lanes, 0, 0, "-");
        add(&mut lanes, 0, 1, "-");
        assert_eq!(take(&mut lanes, 10, 1), expected);
    }
    // An empty key is a key.
    let mut lanes = lanes(Order::Key, NullKey::Serial, 1);
    add(&mut lanes, 0, 0, "-");
    add(&mut lanes, 0, 1, "");
    assert_eq!(take(&mut lanes, 10, 1), [0, 1]);
}

#[test]
fn a_partition_in_order_has_one_record_out() {
    let mut lanes = lanes(Order::Partition, NullKey::Unordered, 1);
    let first = add(&mut lanes, 0, 0, "a");
    add(&mut lanes, 0, 1, "b");
    assert_eq!(take(&mut lanes, 10, 1), [0]);
    lanes.park(first, 50);
    assert_eq!(take(&mut lanes, 10, 1), []);
    assert_eq!((lanes.pop_due(49), lanes.pop_due(50)), (None, Some(first)));
    assert_eq!(take(&mut lanes, 10, 1), [0]);
}

#[test]
fn runs_of_a_key_go_to_handlers_of_batches() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 1);
    for (offset, key) in ["a", "b", "a", "a", "a"].into_iter().enumerate() {
        add(&mut lanes, 0, offset as i64, key);
    }
    assert_eq!(take(&mut lanes, 4, 3), [0, 2, 3, 1]);
    // The key is free when the last of its run is back.
    for offset in [0, 2] {
        let index = index_of(&lanes, 0, offset);
        lanes.remove(index);
        assert_eq!(take(&mut lanes, 4, 3), []);
    }
    let index = index_of(&lanes, 0, 3);
    lanes.put_back(index);
    assert_eq!(take(&mut lanes, 4, 3), [3, 4]);
}

#[test]
fn a_parked_record_blocks_only_its_key() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 1);
    let parked = add(&mut lanes, 0, 0, "a");
    add(&mut lanes, 0, 1, "a");
    assert_eq!(take(&mut lanes, 10, 1), [0]);
    lanes.park(parked, 100);
    add(&mut lanes, 0, 2, "b");
    assert_eq!(take(&mut lanes, 10, 1), [2]);
    assert_eq!(lanes.counts().parked, 1);
    assert_eq!(lanes.next_due(), Some(100));
    lanes.pop_due(100);
    assert_eq!(take(&mut lanes, 10, 1), [0]);
}

#[test]
fn unordered_records_are_parked_alone() {
    let mut lanes = lanes(Order::Unordered, NullKey::Unordered, 1);
    let first = add(&mut lanes, 0, 0, "a");
    add(&mut lanes, 0, 1, "a");
    assert_eq!(take(&mut lanes, 1, 1), [0]);
    lanes.park(first, 100);
    assert_eq!(take(&mut lanes, 10, 1), [1]);
    lanes.pop_due(100);
    assert_eq!(take(&mut lanes, 10, 1), [0]);
}

#[test]
fn partitions_take_turns() {
    let mut lanes = lanes(Order::Unordered, NullKey::Unordered, 3);
    for offset in 0..100 {
        add(&mut lanes, 0, offset, "-");
    }
    for offset in 100..104 {
        add(&mut lanes, 1, offset, "-");
    }
    add(&mut lanes, 2, 104, "-");
    assert_eq!(take(&mut lanes, 9, 1), [0, 1, 2, 100, 101, 102, 104, 3, 4]);
    assert_eq!(take(&mut lanes, 1, 1), [103]);
}

#[test]
fn keys_of_a_partition_take_turns() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 1);
    for offset in 0..6 {
        add(&mut lanes, 0, offset, if offset < 4 { "hot" } else { "cold" });
    }
    let mut seen = vec![];
    while let [offset] = take(&mut lanes, 1, 1)[..] {
        seen.push(offset);
        let index = index_of(&lanes, 0, offset);
        lanes.remove(index);
    }
    assert_eq!(seen, [0, 4, 1, 5, 2, 3]);
}

#[test]
fn a_blocked_partition_waits() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 2);
    add(&mut lanes, 0, 0, "a");
    add(&mut lanes, 1, 1, "a");
    lanes.block(0, true);
    assert_eq!(take(&mut lanes, 10, 1), [1]);
    assert!(!lanes.has_ready(HANDLER));
    lanes.block(0, false);
    assert!(lanes.has_ready(HANDLER));
    assert_eq!(take(&mut lanes, 10, 1), [0]);
}

#[test]
fn a_removed_partition_leaves_nothing_behind() {
    let mut lanes = lanes(Order::Key, NullKey::Unordered, 1);
    let staged = lanes.insert(0, 9, 1, None);
    let [parked, out] = [0, 1].map(|offset| add(&mut lanes, 0, offset, if offset == 0 { "a" } else { "b" }));
    add(&mut lanes, 0, 2, "a");
    add(&mut lanes, 0, 3, "c");
    add(&mut lanes, 0, 4, "-");
    let mut taken = vec![];
    lanes.take(HANDLER, 2, 1, &mut taken);
    assert_eq!(taken, [parked, out]);
    lanes.park(parked, 100);
    let old = RecordId {
        index: out,
        serial: lanes.entry(out).unwrap().serial,
    };
    for index in lanes.of_partition(0).collect::<Vec<_>>() {
        lanes.remove(index);
    }
    lanes.remove_partition(0);
    assert_eq!(
        (lanes.keys(), lanes.counts(), lanes.next_due()),
        (0, Counts::default(), None)
    );
    assert!(lanes.find(old).is_none() && lanes.find(staged).is_none());
    // A record that is read again is not taken for the one that was there: PC#875.
    lanes.add_partition(0, HANDLER, Order::Key, NullKey::Unordered);
    add(&mut lanes, 0, 1, "b");
    assert_eq!(take(&mut lanes, 10, 1), [1]);
}

/// Whatever happens, a key has one record out, in the order of offsets, and everything comes in the end.
#[test]
fn order_holds_in_every_history() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let run_max = 1 + random.below(3) as usize;
        let mut lanes = lanes(Order::Key, NullKey::Serial, 2);
        let (mut now, mut offset) = (0, 0);
        let mut out: Vec<u32> = vec![];
        let mut done = [const { vec![] }; 8];
        let keys = ["a", "b", "c", "-"];
        while offset < 300 || !out.is_empty() || lanes.next_due().is_some() || lanes.has_ready(HANDLER) {
            now += 1;
            if offset < 300 {
                let key = keys[random.below(4) as usize];
                add(&mut lanes, random.below(2) as u32, offset, key);
                offset += 1;
            }
            while lanes.pop_due(now).is_some() {}
            let mut taken = vec![];
            lanes.take(HANDLER, random.below(4) as usize, run_max, &mut taken);
            out.append(&mut taken);
            if out.is_empty() {
                continue;
            }
            let index = out.remove(if run_max == 1 {
                random.below(out.len() as u64) as usize
            } else {
                0
            });
            let entry = lanes.entry(index).unwrap();
            if random.below(3) == 0 {
                // Of a run all come back, as from a handler that fails.
                lanes.park(index, now + random.below(10) as i64);
            } else {
                let key = entry
                    .payload
                    .as_ref()
                    .unwrap()
                    .as_ref()
                    .map_or(3, |key| usize::from(key[0] - b'a'));
                done[key * 2 + entry.partition as usize].push(entry.offset);
                lanes.remove(index);
            }
        }
        assert_eq!(done.iter().map(Vec::len).sum::<usize>(), 300);
        if run_max == 1 {
            assert!(done.iter().all(|offsets| offsets.is_sorted()), "seed {seed}: {done:?}");
        }
        assert_eq!((lanes.keys(), lanes.counts()), (0, Counts::default()));
    }
}

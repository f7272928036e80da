use super::*;
use crate::app::{HandlerId, NullKey, RecordId};

const HANDLER: HandlerId = HandlerId(0);

/// The keys of some records, one letter each; `-` is none.
struct Letters(&'static str);

impl Keyed for Letters {
    fn key(&self) -> Option<&[u8]> {
        self.key_at(0)
    }

    fn records(&self) -> u32 {
        self.0.len() as u32
    }

    fn key_at(&self, place: u32) -> Option<&[u8]> {
        let key = self.0.as_bytes().get(place as usize..=place as usize)?;
        (key != b"-").then_some(key)
    }

    fn split(&mut self, count: u32) -> Option<Self> {
        let (first, rest) = self.0.split_at(count as usize);
        self.0 = first;
        Some(Self(rest))
    }
}

fn lanes(order: Order) -> Lanes<Letters> {
    let mut lanes = Lanes::new(1, 7);
    lanes.add_partition(0, HANDLER, order, NullKey::Unordered);
    lanes
}

fn add(lanes: &mut Lanes<Letters>, offset: i64, keys: &'static str) -> RecordId {
    let record = lanes.insert(0, offset, keys.len() as u32, Letters(keys));
    lanes.enqueue_whole(0, record.index);
    record
}

/// What is handed out: the first offset and the number of records of each.
fn take(lanes: &mut Lanes<Letters>, max: usize) -> Vec<(i64, u32)> {
    let mut out = vec![];
    lanes.take(HANDLER, max, max, &mut out);
    let entries = out.iter().map(|index| lanes.entry(*index).unwrap());
    entries.map(|entry| (entry.offset, entry.count)).collect()
}

fn remove(lanes: &mut Lanes<Letters>, offset: i64) {
    let mut all = lanes.of_partition(0);
    let index = all.find(|index| lanes.entry(*index).unwrap().offset == offset);
    drop(all);
    lanes.remove(index.unwrap());
}

#[test]
fn runs_go_one_after_the_other_unless_there_is_no_order() {
    for (order, second) in [
        (Order::Key, vec![]),
        (Order::Partition, vec![]),
        (Order::Unordered, vec![(3, 3)]),
    ] {
        let mut lanes = lanes(order);
        add(&mut lanes, 0, "abc");
        add(&mut lanes, 3, "def");
        assert_eq!(take(&mut lanes, 3), [(0, 3)]);
        assert_eq!(take(&mut lanes, 3), second, "{order:?}");
        remove(&mut lanes, 0);
        if second.is_empty() {
            assert_eq!(take(&mut lanes, 3), [(3, 3)]);
        }
        remove(&mut lanes, 3);
        assert_eq!(lanes.counts().in_handler, 0);
        assert!(!lanes.is_busy(0));
    }
}

#[test]
fn a_call_takes_as_many_as_fit_and_no_more() {
    let mut lanes = lanes(Order::Key);
    add(&mut lanes, 0, "ab");
    add(&mut lanes, 2, "cdefg");
    assert_eq!(take(&mut lanes, 4), [(0, 2), (2, 2)]);
    assert_eq!(lanes.waits_since(0), Some(0));
    remove(&mut lanes, 0);
    assert_eq!(take(&mut lanes, 4), [], "the other half of the call is still out");
    remove(&mut lanes, 2);
    assert_eq!(take(&mut lanes, 4), [(4, 3)]);
}

#[test]
fn when_runs_are_broken_up_only_the_keys_that_are_out_wait() {
    let mut lanes = lanes(Order::Key);
    add(&mut lanes, 0, "ab-");
    assert_eq!(take(&mut lanes, 3), [(0, 3)]);
    add(&mut lanes, 3, "bc-a");
    lanes.break_waiting(0);
    let mut out = take(&mut lanes, 10);
    out.sort_unstable();
    assert_eq!(out, [(4, 1), (5, 1)], "the other key, and the one without");
    remove(&mut lanes, 0);
    let mut out = take(&mut lanes, 10);
    out.sort_unstable();
    assert_eq!(out, [(3, 1), (6, 1)]);
    for offset in 3..7 {
        remove(&mut lanes, offset);
    }
    assert_eq!((lanes.keys(), lanes.is_busy(0)), (0, false));
}

#[test]
fn a_record_on_its_own_waits_for_a_run_with_its_key() {
    let mut lanes = lanes(Order::Key);
    add(&mut lanes, 0, "ab");
    assert_eq!(take(&mut lanes, 2), [(0, 2)]);
    for (offset, key) in [(2, "b"), (3, "c")] {
        let record = lanes.insert(0, offset, 1, Letters(key));
        lanes.enqueue_single(record.index);
    }
    assert_eq!(take(&mut lanes, 2), [(3, 1)]);
    remove(&mut lanes, 0);
    assert_eq!(take(&mut lanes, 2), [(2, 1)]);
}

#[test]
fn what_fails_of_a_run_comes_again_before_what_waits_behind_it() {
    for order in [Order::Key, Order::Partition] {
        let mut lanes = lanes(order);
        let first = add(&mut lanes, 0, "aa");
        add(&mut lanes, 2, "a");
        assert_eq!(take(&mut lanes, 3), [(0, 2), (2, 1)]);
        let third = add(&mut lanes, 3, "a");
        lanes.break_waiting(0);
        let singles = lanes.break_up(first.index);
        assert_eq!(take(&mut lanes, 3), []);
        lanes.put_back(singles[1]);
        lanes.put_back(singles[0]);
        assert_eq!(take(&mut lanes, 3), [], "the other half of the call is still out");
        remove(&mut lanes, 2);
        assert_eq!(take(&mut lanes, 1), [(0, 1)]);
        remove(&mut lanes, 0);
        assert_eq!(take(&mut lanes, 3), [(1, 1), (3, 1)]);
        assert!(lanes.find(third).is_none(), "it is a record of its own");
        remove(&mut lanes, 1);
        remove(&mut lanes, 3);
        assert_eq!((lanes.keys(), lanes.is_busy(0)), (0, false));
    }
}

#[test]
fn halves_of_a_call_that_fail_one_after_the_other_keep_their_order() {
    let mut lanes = lanes(Order::Key);
    let [first, second] = [(0, "ab"), (2, "ab")].map(|(offset, keys)| add(&mut lanes, offset, keys));
    assert_eq!(take(&mut lanes, 4), [(0, 2), (2, 2)]);
    let early = lanes.break_up(first.index);
    let late = lanes.break_up(second.index);
    for index in late.into_iter().chain(early) {
        lanes.put_back(index);
    }
    let mut out = take(&mut lanes, 2);
    out.extend(take(&mut lanes, 2));
    assert_eq!(out.len(), 4);
    let place = |offset| out.iter().position(|(at, _)| *at == offset);
    assert!(place(0) < place(2) && place(1) < place(3), "{out:?}");
}

use super::*;
use crate::app::{HandlerId, NullKey, RecordId};

const HANDLER: HandlerId = HandlerId(0);

fn partition() -> PartitionIndex {
    PartitionIndex::at(0)
}

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

fn queues(order: Order) -> Queues<Letters> {
    let mut queues = Queues::new(1, 7);
    queues.add_partition(partition(), HANDLER, order, NullKey::Unordered);
    queues
}

fn add(queues: &mut Queues<Letters>, offset: i64, keys: &'static str) -> RecordId {
    let record = queues.insert(partition(), offset, keys.len() as u32, Letters(keys));
    queues.enqueue_run(0, record.index);
    record
}

/// The first offset and the number of records of each run that is handed out.
fn take(queues: &mut Queues<Letters>, max: usize) -> Vec<(i64, u32)> {
    let mut out = vec![];
    queues.take(HANDLER, max, max, &mut out);
    let entries = out.iter().map(|index| queues.entry(*index).unwrap());
    entries.map(|entry| (entry.offset, entry.count)).collect()
}

fn remove(queues: &mut Queues<Letters>, offset: i64) {
    let mut all = queues.of_partition(partition());
    let index = all.find(|index| queues.entry(*index).unwrap().offset == offset);
    drop(all);
    queues.remove(index.unwrap());
}

#[test]
fn runs_go_one_after_the_other_unless_there_is_no_order() {
    for (order, second) in [
        (Order::Key, vec![]),
        (Order::Partition, vec![]),
        (Order::Unordered, vec![(3, 3)]),
    ] {
        let mut queues = queues(order);
        add(&mut queues, 0, "abc");
        add(&mut queues, 3, "def");
        assert_eq!(take(&mut queues, 3), [(0, 3)]);
        assert_eq!(take(&mut queues, 3), second, "{order:?}");
        remove(&mut queues, 0);
        if second.is_empty() {
            assert_eq!(take(&mut queues, 3), [(3, 3)]);
        }
        remove(&mut queues, 3);
        assert_eq!(queues.counts().in_handler, 0);
        assert!(!queues.is_busy(partition()));
    }
}

#[test]
fn a_call_takes_as_many_as_fit_and_no_more() {
    let mut queues = queues(Order::Key);
    add(&mut queues, 0, "ab");
    add(&mut queues, 2, "cdefg");
    assert_eq!(take(&mut queues, 4), [(0, 2), (2, 2)]);
    assert_eq!(queues.waits_since(partition()), Some(0));
    remove(&mut queues, 0);
    assert_eq!(take(&mut queues, 4), [], "the other half of the call is still out");
    remove(&mut queues, 2);
    assert_eq!(take(&mut queues, 4), [(4, 3)]);
}

#[test]
fn when_runs_are_broken_up_only_the_keys_that_are_out_wait() {
    let mut queues = queues(Order::Key);
    add(&mut queues, 0, "ab-");
    assert_eq!(take(&mut queues, 3), [(0, 3)]);
    add(&mut queues, 3, "bc-a");
    queues.split_waiting_runs(partition());
    let mut out = take(&mut queues, 10);
    out.sort_unstable();
    assert_eq!(out, [(4, 1), (5, 1)], "the other key, and the one without");
    remove(&mut queues, 0);
    let mut out = take(&mut queues, 10);
    out.sort_unstable();
    assert_eq!(out, [(3, 1), (6, 1)]);
    for offset in 3..7 {
        remove(&mut queues, offset);
    }
    assert_eq!((queues.keys(), queues.is_busy(partition())), (0, false));
}

#[test]
fn a_record_on_its_own_waits_for_a_run_with_its_key() {
    let mut queues = queues(Order::Key);
    add(&mut queues, 0, "ab");
    assert_eq!(take(&mut queues, 2), [(0, 2)]);
    for (offset, key) in [(2, "b"), (3, "c")] {
        let record = queues.insert(partition(), offset, 1, Letters(key));
        queues.enqueue_single(record.index);
    }
    assert_eq!(take(&mut queues, 2), [(3, 1)]);
    remove(&mut queues, 0);
    assert_eq!(take(&mut queues, 2), [(2, 1)]);
}

#[test]
fn what_fails_of_a_run_comes_again_before_what_waits_behind_it() {
    for order in [Order::Key, Order::Partition] {
        let mut queues = queues(order);
        let first = add(&mut queues, 0, "aa");
        add(&mut queues, 2, "a");
        assert_eq!(take(&mut queues, 3), [(0, 2), (2, 1)]);
        let third = add(&mut queues, 3, "a");
        queues.split_waiting_runs(partition());
        let singles = queues.split_run(first.index);
        assert_eq!(take(&mut queues, 3), []);
        queues.put_back(singles[1]);
        queues.put_back(singles[0]);
        assert_eq!(take(&mut queues, 3), [], "the other half of the call is still out");
        remove(&mut queues, 2);
        assert_eq!(take(&mut queues, 1), [(0, 1)]);
        remove(&mut queues, 0);
        assert_eq!(take(&mut queues, 3), [(1, 1), (3, 1)]);
        assert!(queues.find(third).is_none(), "it is a record of its own");
        remove(&mut queues, 1);
        remove(&mut queues, 3);
        assert_eq!((queues.keys(), queues.is_busy(partition())), (0, false));
    }
}

#[test]
fn halves_of_a_call_that_fail_one_after_the_other_keep_their_order() {
    let mut queues = queues(Order::Key);
    let [first, second] = [(0, "ab"), (2, "ab")].map(|(offset, keys)| add(&mut queues, offset, keys));
    assert_eq!(take(&mut queues, 4), [(0, 2), (2, 2)]);
    let early = queues.split_run(first.index);
    let late = queues.split_run(second.index);
    for index in late.into_iter().chain(early) {
        queues.put_back(index);
    }
    let mut out = take(&mut queues, 2);
    out.extend(take(&mut queues, 2));
    assert_eq!(out.len(), 4);
    let place = |offset| out.iter().position(|(at, _)| *at == offset);
    assert!(place(0) < place(2) && place(1) < place(3), "{out:?}");
}

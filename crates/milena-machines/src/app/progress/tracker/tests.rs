use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Random;

fn tracker() -> Tracker {
    Tracker::new(1, 100, vec![])
}

fn deliver(tracker: &mut Tracker, offsets: impl IntoIterator<Item = i64>) {
    for offset in offsets {
        assert_eq!(tracker.deliver(offset, None, 1), DeliveryResult::Pending);
    }
}

/// The finished ranges above the frontier.
pub(in crate::app) fn finished(tracker: &Tracker) -> Vec<FinishedRange> {
    let mut at = tracker.frontier();
    let mut found = vec![];
    tracker.runs(|unfinished, finished| {
        let start = at + unfinished as i64;
        at = start + finished as i64;
        found.push(FinishedRange { start, end: at });
        true
    });
    found
}

#[test]
fn the_commit_is_the_lowest_unfinished_offset() {
    let mut tracker = tracker();
    deliver(&mut tracker, 100..110);
    assert_eq!(tracker.frontier(), 100);
    assert_eq!(tracker.complete(1, 101, 1), CompletionResult::Done);
    assert_eq!(tracker.frontier(), 100);
    assert_eq!(tracker.complete(1, 100, 1), CompletionResult::Done);
    assert_eq!(tracker.frontier(), 102);
}

/// Not the last fetched or seen offset: Parallel Consumer #826 lost records that way.
#[test]
fn the_commit_is_after_the_last_finished_if_nothing_is_unfinished() {
    let mut tracker = tracker();
    assert_eq!(tracker.frontier(), 100);
    deliver(&mut tracker, [100, 101]);
    for offset in [101, 100] {
        assert_eq!(tracker.complete(1, offset, 1), CompletionResult::Done);
    }
    assert_eq!(tracker.frontier(), 102);
    assert_eq!((tracker.pending(), tracker.pending_bytes()), (0, 0));
}

#[test]
fn what_is_not_delivered_counts_as_done() {
    let mut tracker = tracker();
    deliver(&mut tracker, [105, 107, 100_000, 100_001]);
    assert_eq!(tracker.frontier(), 105);
    assert_eq!(tracker.complete(1, 106, 1), CompletionResult::Unknown);
    assert_eq!(tracker.complete(1, 105, 1), CompletionResult::Done);
    assert_eq!(tracker.frontier(), 107);
    assert_eq!(tracker.complete(1, 5_000, 1), CompletionResult::Unknown);
    assert_eq!(tracker.complete(1, 107, 1), CompletionResult::Done);
    assert_eq!(tracker.frontier(), 100_000);
    assert_eq!(tracker.complete(1, 100_001, 1), CompletionResult::Done);
    assert_eq!(tracker.complete(1, 100_000, 1), CompletionResult::Done);
    assert_eq!(tracker.frontier(), 100_002);
}

#[test]
fn markers_at_the_end_of_the_log_are_passed() {
    let mut tracker = tracker();
    deliver(&mut tracker, [100, 101]);
    tracker.advance(105);
    assert_eq!(tracker.frontier(), 100);
    tracker.complete(1, 100, 1);
    deliver(&mut tracker, [106]);
    tracker.complete(1, 101, 1);
    assert_eq!(tracker.frontier(), 106);
    tracker.complete(1, 106, 1);
    tracker.advance(110);
    assert_eq!(tracker.frontier(), 110);
}

#[test]
fn what_belongs_to_another_assignment_is_dropped() {
    let mut tracker = tracker();
    deliver(&mut tracker, [100]);
    assert_eq!(tracker.complete(0, 100, 1), CompletionResult::Stale);
    assert_eq!(tracker.frontier(), 100);
}

#[test]
fn nothing_is_delivered_or_done_twice() {
    let mut tracker = tracker();
    deliver(&mut tracker, 100..103);
    assert_eq!(tracker.deliver(102, None, 1), DeliveryResult::Twice);
    assert_eq!(tracker.complete(1, 101, 1), CompletionResult::Done);
    assert_eq!(tracker.complete(1, 101, 1), CompletionResult::Unknown);
    assert_eq!(tracker.pending(), 2);
}

#[test]
fn the_commit_carries_the_leader_epoch_of_what_lies_before_it() {
    let mut tracker = tracker();
    for (offset, epoch) in [(100, 3), (101, 3), (102, 4), (103, 7)] {
        tracker.deliver(offset, Some(epoch), 1);
    }
    assert_eq!(tracker.leader_epoch(), None);
    tracker.complete(1, 100, 1);
    assert_eq!(tracker.leader_epoch(), Some(3));
    tracker.complete(1, 101, 1);
    assert_eq!(tracker.leader_epoch(), Some(3));
    tracker.complete(1, 102, 1);
    assert_eq!(tracker.leader_epoch(), Some(4));
    tracker.complete(1, 103, 1);
    assert_eq!(tracker.leader_epoch(), Some(7));
}

#[test]
fn what_was_done_in_an_earlier_life_is_not_done_again() {
    let restored = vec![
        FinishedRange { start: 102, end: 104 },
        FinishedRange { start: 200, end: 300 },
    ];
    let mut tracker = Tracker::new(1, 100, restored.clone());
    assert_eq!(finished(&tracker), restored);
    deliver(&mut tracker, [100, 101]);
    assert_eq!(tracker.deliver(102, None, 1), DeliveryResult::Finished);
    // Ranges that are not delivered yet stay in the map.
    assert_eq!(
        finished(&tracker),
        [FinishedRange { start: 102, end: 104 }, restored[1]]
    );
    assert_eq!(tracker.deliver(103, None, 1), DeliveryResult::Finished);
    deliver(&mut tracker, [104]);
    tracker.complete(1, 100, 1);
    tracker.complete(1, 101, 1);
    assert_eq!(tracker.frontier(), 104);
    assert_eq!(finished(&tracker), [restored[1]]);
    assert_eq!(tracker.deliver(250, None, 1), DeliveryResult::Finished);
    deliver(&mut tracker, [300]);
    assert_eq!(tracker.complete(1, 104, 1), CompletionResult::Done);
    assert_eq!(tracker.frontier(), 300);
}

/// The same as a set, for any order and gaps.
#[test]
fn it_agrees_with_a_set_in_every_history() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut restored = vec![];
        let mut at = 1_000;
        for _ in 0..random.below(5) {
            let start = at + 1 + random.below(40) as i64;
            at = start + 1 + random.below(300) as i64;
            restored.push(FinishedRange { start, end: at });
        }
        let mut tracker = Tracker::new(9, 1_000, restored.clone());
        let gap_max = [1, 3, 100, 2_000][random.below(4) as usize];
        let mut pending = BTreeSet::new();
        let mut sizes = BTreeMap::new();
        let mut end = 1_000;
        for _ in 0..400 {
            if random.below(5) < 3 {
                end += random.below(gap_max) as i64;
                let was_done = restored.iter().any(|range| range.start <= end && end < range.end);
                let delivered = tracker.deliver(end, None, end as u64);
                assert_eq!(delivered == DeliveryResult::Finished, was_done);
                if !was_done {
                    pending.insert(end);
                    sizes.insert(end, end as u64);
                }
                end += 1;
            } else if random.below(10) == 0 {
                end += random.below(5) as i64;
                tracker.advance(end);
            } else if let Some(offset) = pending
                .iter()
                .nth(random.below(pending.len().max(1) as u64) as usize)
                .copied()
            {
                assert_eq!(tracker.complete(9, offset, offset as u64), CompletionResult::Done);
                pending.remove(&offset);
                sizes.remove(&offset);
            }
            let frontier = pending.first().copied().unwrap_or(end);
            assert_eq!(tracker.frontier(), frontier, "seed {seed}");
            assert_eq!(tracker.pending(), pending.len() as u64);
            assert_eq!(tracker.pending_bytes(), sizes.values().sum::<u64>());
            let found = finished(&tracker);
            assert!(
                found.windows(2).all(|pair| pair[0].end < pair[1].start),
                "seed {seed}: {found:?}"
            );
            let near = found
                .iter()
                .flat_map(|range| [range.start - 1, range.start, range.end - 1, range.end]);
            for offset in near.chain(pending.iter().copied()).filter(|offset| *offset >= frontier) {
                let done = if offset < end {
                    !pending.contains(&offset)
                } else {
                    restored.iter().any(|range| range.start <= offset && offset < range.end)
                };
                let told = found.iter().any(|range| range.start <= offset && offset < range.end);
                assert_eq!(told, done, "seed {seed}, offset {offset}");
            }
        }
    }
}

#[test]
fn a_million_unfinished_records_take_a_quarter_of_a_byte_each() {
    let mut tracker = tracker();
    deliver(&mut tracker, 100..1_000_100);
    assert!(tracker.memory() <= 250_000, "{}", tracker.memory());
    // Offsets far apart do not cost the distance.
    let mut tracker = Tracker::new(1, 0, vec![]);
    deliver(&mut tracker, (0..1_000).map(|n| n << 40));
    assert!(tracker.memory() <= 64 << 10, "{}", tracker.memory());
}

/// A run is equal to its records, wherever words and gaps begin.
#[test]
fn runs_are_delivered_and_done_as_their_records_would_be() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut whole, mut single) = (tracker(), tracker());
        let mut runs: Vec<(i64, u32)> = vec![];
        for _ in 0..40 {
            let gap = [0, 0, 3, 1_000][random.below(4) as usize];
            let (offset, count) = (whole.end() + gap, 1 + random.below(200) as u32);
            assert!(whole.deliver_run(offset, count, None, u64::from(count)));
            deliver(&mut single, offset..offset + i64::from(count));
            runs.push((offset, count));
            while runs.len() > random.below(6) as usize {
                let nth = random.below(runs.len() as u64) as usize;
                let (offset, count) = runs.swap_remove(nth);
                let half = count / 2;
                for (offset, count) in [(offset, half), (offset + i64::from(half), count - half)] {
                    let done = whole.complete_run(1, offset, count, u64::from(count));
                    assert_eq!(done, u64::from(count));
                    for offset in offset..offset + i64::from(count) {
                        assert_eq!(single.complete(1, offset, 1), CompletionResult::Done);
                    }
                }
                assert_eq!(whole.frontier(), single.frontier());
                assert_eq!(whole.pending_bytes(), single.pending_bytes());
                assert_eq!((whole.pending(), whole.version()), (single.pending(), single.version()));
                assert_eq!(finished(&whole), finished(&single));
            }
        }
    }
}

#[test]
fn a_run_is_looked_at_one_by_one_where_something_of_it_may_be_done() {
    let mut tracker = Tracker::new(1, 100, vec![FinishedRange { start: 105, end: 106 }]);
    assert!(!tracker.deliver_run(100, 10, None, 10));
    deliver(&mut tracker, 100..105);
    assert_eq!(tracker.deliver(105, None, 1), DeliveryResult::Finished);
    assert!(!tracker.deliver_run(105, 2, None, 2), "the first was delivered before");
    assert!(tracker.deliver_run(106, 2, None, 2));
    assert_eq!(tracker.complete_run(2, 106, 2, 2), 0, "of another assignment");
}

/// A commit without progress has no less in its map than the one before.
#[test]
fn the_leader_epoch_of_what_was_committed_is_kept() {
    let mut tracker = Tracker::new(1, 5, vec![]);
    tracker.begin_after(Some(3));
    tracker.deliver(5, Some(4), 1);
    assert_eq!(tracker.leader_epoch(), Some(3));
    tracker.complete(1, 5, 1);
    assert_eq!(tracker.leader_epoch(), Some(4));
}

/// The same as `runs`, as a bit for each offset.
#[test]
fn words_say_what_runs_say() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let first = random.below(1_000) as i64;
        let count = 1 + random.below(300) as i64;
        let mut tracker = Tracker::new(1, first, vec![]);
        for offset in first..first + count {
            tracker.deliver(offset, None, 0);
        }
        for offset in first..first + count {
            if random.below(3) > 0 {
                tracker.complete(1, offset, 0);
            }
        }
        let mut by_runs = vec![];
        tracker.runs(|unfinished, finished| {
            by_runs.extend((0..unfinished).map(|_| false));
            by_runs.extend((0..finished).map(|_| true));
            true
        });
        let Some(words) = tracker.finished_words() else {
            assert_eq!(tracker.pending(), 0);
            continue;
        };
        let words: Vec<u64> = words.collect();
        let bits = words
            .iter()
            .flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
        let bits: Vec<bool> = bits.collect();
        let ends = bits.iter().rposition(|bit| *bit).map_or(0, |last| last + 1);
        assert_eq!(bits[..ends], by_runs, "seed {seed}");
    }
    let mut gaps = Tracker::new(1, 0, vec![]);
    gaps.deliver(0, None, 0);
    gaps.deliver(1_000, None, 0);
    assert!(gaps.finished_words().is_none());
    let mut at_the_end = Tracker::new(1, 0, vec![]);
    at_the_end.deliver(0, None, 0);
    at_the_end.advance(5);
    assert!(at_the_end.finished_words().is_none());
}

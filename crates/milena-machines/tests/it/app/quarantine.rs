//! The crash guard: records that kill the process of their handler.

use milena_machines::app::{
    Action, CommitOffset, CommitResult, CommittedOffset, CrashCounters, DeadLetterReason, Delivery, Exhausted,
    HandlerConfig, Outcome, PartitionId, Publish, PublishResult, RecordId, Role, SchedulerConfig, StallReason,
    StopReason, commit_map,
};

use super::rig::{Rig, config, handler};

/// The offset of the record that kills its process, each time.
const KILLER: i64 = 3;

fn counting(handler: HandlerConfig) -> SchedulerConfig {
    SchedulerConfig {
        crash_limit: Some(3),
        ..config(handler)
    }
}

fn starts(committed: &CommittedOffset) -> CrashCounters {
    commit_map::read(&committed.metadata, committed.offset).unwrap().crashes
}

fn counted(count: u32) -> CrashCounters {
    CrashCounters {
        count,
        ..CrashCounters::default()
    }
}

/// One owner after the other, with their commits.
struct Owners {
    config: SchedulerConfig,
    committed: Vec<Option<CommittedOffset>>,
    /// The offsets that each owner has handed out.
    handed: Vec<Vec<(i32, i64)>>,
}

/// The only partition, or one of several.
type Place = (i32, PartitionId);

impl Owners {
    fn new(config: SchedulerConfig, partitions: usize) -> Self {
        Self {
            config,
            committed: vec![None; partitions],
            handed: vec![],
        }
    }

    fn begin(&mut self) -> (Rig, Vec<Place>) {
        let mut rig = Rig::new(self.config.clone());
        let places = (0..).zip(&self.committed).map(|(number, committed)| {
            let position = committed.as_ref().map_or(0, |committed| committed.offset);
            (number, rig.assign_at(number, Role::Main, position, committed.clone()))
        });
        let places = places.collect();
        self.handed.push(vec![]);
        (rig, places)
    }

    /// Each partition has these records; none of them has a key in common.
    fn read(&self, rig: &mut Rig, places: &[Place], end: i64) {
        const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for (number, id) in places {
            let begin = self.committed[*number as usize]
                .as_ref()
                .map_or(0, |committed| committed.offset);
            for offset in begin..end {
                rig.read(*id, offset, KEYS[offset as usize % 8]);
            }
        }
    }

    /// Performs actions until there are none, or the process dies. Returns whether it died. Dead letters are acknowledged.
    fn run(&mut self, rig: &mut Rig, places: &[Place], kills: impl Fn(i32, i64) -> bool) -> bool {
        let mut running = vec![];
        loop {
            rig.advance(0);
            let said = rig.said();
            let is_quiet = said.is_empty() && running.is_empty();
            for action in said {
                self.act(rig, action);
            }
            for dispatched in rig.dispatch() {
                let number = places.iter().find(|(_, id)| *id == dispatched.partition).unwrap().0;
                self.handed.last_mut().unwrap().push((number, dispatched.offset));
                running.push((number, dispatched.offset, dispatched.record));
            }
            if running.iter().any(|(number, offset, _)| kills(*number, *offset)) {
                return true;
            }
            for (_, _, record) in running.drain(..) {
                rig.finish(record, Outcome::Done);
            }
            if is_quiet && rig.actions.is_empty() {
                return false;
            }
        }
    }

    fn act(&mut self, rig: &mut Rig, action: Action) {
        match action {
            Action::Commit { offsets, .. } => {
                offsets.iter().for_each(|offset| self.keep(offset));
                rig.committed(CommitResult::Ok);
            }
            Action::Publish { record, .. } => rig.published(record, PublishResult::Acked),
            _ => {}
        }
    }

    fn keep(&mut self, offset: &CommitOffset) {
        self.committed[offset.partition.partition as usize] = Some(CommittedOffset {
            offset: offset.offset,
            metadata: offset.metadata.clone(),
        });
    }

    fn one(&self) -> &CommittedOffset {
        self.committed[0].as_ref().unwrap()
    }
}

/// A commit with crash counters.
fn died(offset: i64, starts: CrashCounters) -> CommittedOffset {
    let tracker = milena_machines::app::tracker::Tracker::new(0, offset, vec![]);
    let room = commit_map::Room {
        chars: 4_096,
        wide: true,
    };
    CommittedOffset {
        offset,
        metadata: commit_map::encode_with(&tracker, starts, room).text,
    }
}

fn alone(count: u32, reach: i64) -> CrashCounters {
    CrashCounters {
        count,
        reach: Some(reach),
        alone: true,
    }
}

fn dead_letters(rig: &Rig) -> Vec<(RecordId, DeadLetterReason, u32)> {
    let letters = rig.actions.iter().filter_map(|action| match action {
        Action::Publish {
            record,
            what: Publish::DeadLetter { reason, attempts, .. },
        } => Some((*record, *reason, *attempts)),
        _ => None,
    });
    letters.collect()
}

#[test]
fn that_somebody_begins_is_committed_before_anything_is_handed_out() {
    let mut rig = Rig::new(counting(handler()));
    let partition = rig.assign(0);
    rig.advance(1_000);
    assert_eq!(rig.said(), [], "who has nothing to do has nothing to tell");
    rig.read_keys(partition, &["a", "b"]);
    assert_eq!(rig.offsets(), []);
    assert_eq!(
        rig.work.stall_reason(rig.now, partition),
        Some(StallReason::WaitsForCommit)
    );
    rig.advance(0);
    let commit = rig.commit();
    assert_eq!(commit.offset, 0);
    let told = commit_map::read(&commit.metadata, 0).unwrap();
    assert_eq!(told.crashes, counted(1));
    assert_eq!(rig.offsets(), []);
    rig.committed(CommitResult::Ok);
    let running = rig.dispatch();
    assert_eq!(running.len(), 2);
    // A commit with progress has no counters.
    running.iter().for_each(|it| rig.finish(it.record, Outcome::Done));
    rig.advance(100);
    let commit = rig.commit();
    assert_eq!((commit.offset, commit.metadata.as_str()), (2, ""));
    rig.committed(CommitResult::Ok);
    rig.read(partition, 2, "a");
    assert_eq!(rig.offsets(), [2]);
}

#[test]
fn partitions_that_come_together_are_told_together() {
    let mut rig = Rig::new(counting(handler()));
    let both = [rig.assign(0), rig.assign(1)];
    for partition in both {
        rig.read(partition, 0, "a");
    }
    rig.advance(0);
    let said = rig.said();
    assert!(
        matches!(&said[..], [Action::Commit { offsets, .. }] if offsets.len() == 2),
        "{said:?}"
    );
}

#[test]
fn a_record_that_ends_the_process_is_a_dead_letter_after_the_third_time() {
    let mut owners = Owners::new(counting(handler()), 1);
    for crash in 1..=3 {
        let (mut rig, places) = owners.begin();
        owners.read(&mut rig, &places, 8);
        assert!(owners.run(&mut rig, &places, |_, offset| offset == KILLER));
        assert_eq!(starts(owners.one()).count, crash);
    }
    // The third owner isolated its records, up to the one that killed it.
    assert_eq!(owners.handed[2], [(0, 0), (0, 1), (0, 2), (0, KILLER)]);
    assert_eq!(owners.one().offset, KILLER);
    assert!(starts(owners.one()).alone);

    let (mut rig, places) = owners.begin();
    owners.read(&mut rig, &places, 8);
    rig.advance(0);
    assert_eq!(rig.offsets(), []);
    let letters = dead_letters(&rig);
    assert!(
        matches!(letters[..], [(_, DeadLetterReason::Crash { owners: 3 }, 3)]),
        "{letters:?}"
    );
    let record = letters[0].0;
    let said = rig.said();
    let told = |action: &Action| {
        matches!(
            action,
            Action::Quarantined {
                offset: KILLER,
                owners: 3,
                ..
            }
        )
    };
    assert!(said.iter().any(told), "{said:?}");
    // Its offset moves when it is acknowledged, not before.
    rig.advance(10_000);
    assert_eq!(rig.work.partition_status(places[0].1).unwrap().frontier, KILLER);
    rig.published(record, PublishResult::Acked);
    assert!(!owners.run(&mut rig, &places, |_, offset| offset == KILLER));
    assert_eq!(owners.handed[3], [(0, 4), (0, 5), (0, 6), (0, 7)]);
    assert_eq!((owners.one().offset, owners.one().metadata.as_str()), (8, ""));
    assert_eq!(rig.work.status().totals.quarantined, 1);
}

/// It stays quarantined if its dead letter cannot be written and the process restarts.
#[test]
fn it_stays_condemned_until_it_is_written() {
    let mut rig = Rig::new(counting(handler()));
    let found = died(5, alone(3, 9));
    let partition = rig.assign_at(0, Role::Main, 5, Some(found.clone()));
    rig.read(partition, 5, "a");
    rig.advance(0);
    assert_eq!(rig.offsets(), []);
    let record = dead_letters(&rig)[0].0;
    rig.said();
    rig.published(record, PublishResult::Failed);
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.advance(0);
    let commits = rig.said();
    let commits = commits.iter().filter(|action| matches!(action, Action::Commit { .. }));
    assert_eq!(commits.count(), 0, "what was found still holds");
    let mut next = Rig::new(counting(handler()));
    let partition = next.assign_at(0, Role::Main, 5, Some(found));
    next.read(partition, 5, "a");
    next.advance(0);
    assert_eq!(next.offsets(), []);
    assert_eq!(dead_letters(&next).len(), 1);
}

#[test]
fn a_wary_owner_says_how_far_it_goes_and_never_stands_still() {
    let mut rig = Rig::new(counting(handler()));
    let partition = rig.assign_at(0, Role::Main, 0, Some(died(0, counted(1))));
    for offset in 0..600 {
        rig.read(partition, offset, ["a", "b", "c"][offset as usize % 3]);
    }
    let mut reaches = vec![];
    let mut first = None;
    for _ in 0..1_000 {
        rig.advance(0);
        for action in rig.said() {
            let Action::Commit { offsets, .. } = action else {
                continue;
            };
            let told = commit_map::read(&offsets[0].metadata, offsets[0].offset).unwrap();
            reaches.push(told.crashes.reach.unwrap());
            rig.committed(CommitResult::Ok);
        }
        for it in rig.dispatch() {
            assert!(it.offset < *reaches.last().unwrap());
            // The first one is slow, and those that do not wait for it go on.
            if it.offset == 0 {
                first = Some(it.record);
            } else {
                rig.finish(it.record, Outcome::Done);
            }
        }
    }
    assert!(first.is_some());
    reaches.dedup();
    assert_eq!(reaches, [256, 512, 768]);
}

#[test]
fn who_gives_a_partition_back_did_not_die() {
    for (found, left) in [(None, counted(0)), (Some(died(0, counted(1))), counted(1))] {
        let mut rig = Rig::new(counting(handler()));
        let partition = rig.assign_at(0, Role::Main, 0, found);
        rig.read(partition, 0, "a");
        rig.advance(0);
        rig.commit();
        rig.committed(CommitResult::Ok);
        let record = rig.one().record;
        rig.said();
        rig.work.handle_revoking(rig.now, &[partition]);
        // It does not finish in time.
        rig.advance(15_000);
        let commit = rig.commit();
        let told = commit_map::read(&commit.metadata, commit.offset).unwrap().crashes;
        assert_eq!((commit.offset, told.count, told.alone), (0, left.count, false));
        rig.committed(CommitResult::Ok);
        assert_eq!(rig.said(), [Action::Released(partition)]);
        rig.finish(record, Outcome::Done);
    }
}

/// The commit that announces the start is in flight and may count: it is withdrawn before the partition is released.
#[test]
fn a_partition_that_goes_while_its_start_is_told_is_released() {
    for result in [CommitResult::Ok, CommitResult::Failed, CommitResult::Lost] {
        let mut rig = Rig::new(counting(handler()));
        let partition = rig.assign(0);
        rig.read(partition, 0, "a");
        rig.advance(0);
        rig.commit();
        rig.work.handle_revoking(rig.now, &[partition]);
        rig.advance(0);
        let said = rig.said();
        assert!(!said.contains(&Action::Released(partition)), "{said:?}");
        rig.committed(result);
        if result != CommitResult::Lost {
            rig.advance(1_000);
            let commit = rig.commit();
            assert_eq!((commit.offset, commit.metadata.as_str()), (0, ""));
            rig.committed(CommitResult::Ok);
        }
        let said = rig.said();
        assert!(said.contains(&Action::Released(partition)), "{said:?}");
    }
}

/// With two isolated records in handlers it would be unknown which one killed the process.
#[test]
fn of_all_careful_partitions_one_has_a_record_out() {
    let mut owners = Owners::new(counting(handler()), 3);
    let kills = |number, offset| number == 1 && offset == KILLER;
    for _ in 1..=3 {
        let (mut rig, places) = owners.begin();
        owners.read(&mut rig, &places, 6);
        assert!(owners.run(&mut rig, &places, kills));
    }
    let suspects = owners
        .committed
        .iter()
        .flatten()
        .filter(|committed| starts(committed).alone);
    assert_eq!(suspects.count(), 1);
    let (mut rig, places) = owners.begin();
    owners.read(&mut rig, &places, 6);
    assert!(!owners.run(&mut rig, &places, kills));
    assert_eq!(rig.work.status().totals.quarantined, 1);
    for committed in owners.committed.iter().flatten() {
        assert_eq!((committed.offset, committed.metadata.as_str()), (6, ""));
    }
}

/// A parked record is in no handler, and must not keep other partitions waiting.
#[test]
fn a_record_that_waits_makes_way() {
    let mut rig = Rig::new(counting(handler()));
    let found = || Some(died(0, counted(2)));
    let places = [0, 1].map(|number| (number, rig.assign_at(number, Role::Main, 0, found())));
    for (_, id) in places {
        rig.read(id, 0, "a");
        rig.read(id, 1, "b");
    }
    rig.advance(0);
    rig.committed(CommitResult::Ok);
    let first = rig.one();
    rig.said();
    let (other, waiting) = places
        .map(|(_, id)| id)
        .into_iter()
        .partition::<Vec<_>, _>(|id| *id != first.partition);
    assert_eq!(rig.work.stall_reason(rig.now, other[0]), Some(StallReason::Isolating));
    rig.finish(first.record, Outcome::RetryAfter { ms: 60_000 });
    for _ in 0..3 {
        rig.advance(0);
        rig.committed(CommitResult::Ok);
    }
    let second = rig.one();
    assert_eq!((second.partition, second.offset), (other[0], 0));
    assert!(rig.work.partition_status(waiting[0]).unwrap().is_isolating);
}

#[test]
fn without_dead_letters_the_partition_stops_before_the_process_does() {
    let mut stops = handler();
    stops.retry.exhausted = Exhausted::Stop;
    let mut rig = Rig::new(counting(stops));
    let partition = rig.assign_at(0, Role::Main, 5, Some(died(5, alone(3, 9))));
    rig.read(partition, 5, "a");
    rig.advance(0);
    assert_eq!(rig.offsets(), []);
    assert_eq!(
        rig.work.stall_reason(rig.now, partition),
        Some(StallReason::Stopped(StopReason::Exhausted))
    );
    // An operator restarts the partition, so the record is tried.
    rig.advance(0);
    rig.committed(CommitResult::Ok);
    rig.work.restart_partition(rig.now, partition);
    rig.advance(0);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.offsets(), [5]);
}

/// The suspected record was deleted from the log: the next one is not quarantined in its place.
#[test]
fn nobody_is_blamed_for_another() {
    let mut rig = Rig::new(counting(handler()));
    let partition = rig.assign_at(0, Role::Main, 5, Some(died(5, alone(3, 9))));
    rig.read(partition, 7, "a");
    rig.advance(0);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.offsets(), [7]);
}

#[test]
fn brokers_that_take_no_metadata_keep_nobody_from_working() {
    let mut rig = Rig::new(counting(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.advance(0);
    for _ in 0..12 {
        if rig.commit().metadata.is_empty() {
            break;
        }
        rig.committed(CommitResult::MetadataTooLarge);
    }
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.offsets(), [0]);
}

#[test]
fn where_nothing_comes_twice_or_all_is_in_transactions_nothing_is_counted() {
    let mut once = handler();
    once.retry.attempts = 1;
    for delivery in [Delivery::AtMostOnce, Delivery::ExactlyOnce] {
        let mut rig = Rig::new(SchedulerConfig {
            delivery,
            ..counting(once.clone())
        });
        let partition = rig.assign_at(0, Role::Main, 5, Some(died(5, alone(3, 9))));
        rig.read(partition, 5, "a");
        rig.advance(0);
        rig.committed(CommitResult::Ok);
        assert_eq!(rig.offsets(), [5]);
    }
}

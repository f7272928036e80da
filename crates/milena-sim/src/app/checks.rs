//! Checks of applications: conditions that hold whatever goes wrong.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::app::{
    CommittedOffset, CrashCounters, Delivery, NullKey, Order, PartitionId,
    commit_map::{self, CommitMetadata},
    tracker::FinishedRange,
};

mod deaths;
mod output;

use super::{
    Life,
    cluster::{Cluster, name},
    driver::Run,
    plan::Plan,
    record::Record,
};

/// Offsets of one log that are handled one after the other: an assignment, and a key if keys have an order of their
/// own.
type Lane = (u64, PartitionId, Option<Option<[u8; 1]>>);

#[derive(Debug)]
pub(super) struct Checks {
    pub(super) failure: Option<String>,
    /// Records that are done for good, by log and offset: handled, or acknowledged in another topic.
    settled: BTreeSet<(usize, i64)>,
    /// Records that an assignment is done with, also in a transaction that has not ended.
    over: BTreeSet<(u64, PartitionId, i64)>,
    /// The number of effects of a record, and of its dead letters.
    effects: BTreeMap<u64, u32>,
    dead: BTreeMap<u64, u32>,
    lanes: BTreeMap<Lane, Started>,
    /// Records that producers have taken, which others need not wait for.
    taken: BTreeSet<(u64, PartitionId, i64)>,
    /// The output for the offsets of a lane, each with the number of its last write.
    outputs: BTreeMap<Lane, BTreeMap<i64, u64>>,
    /// The calls of a record.
    calls: BTreeMap<(u64, PartitionId, i64), BTreeSet<u64>>,
    last_output: u64,
    /// The earliest time of a record's next attempt, and the number of its failures.
    waits: BTreeMap<(u64, PartitionId, i64), (i64, u32)>,
    /// At most once: the records that each instance began.
    begun: BTreeMap<(usize, i64), (u64, PartitionId)>,
    /// A partition was lost without a revocation.
    pub(super) forced: bool,
    /// The number of owners of a partition that crashed, or may have.
    deaths: BTreeMap<usize, u32>,
    /// Records that a commit announced as handed out alone.
    suspects: BTreeSet<(usize, i64)>,
    /// The number of processes that a record has crashed.
    kills: BTreeMap<u64, u32>,
    /// The last claims of partitions whose offsets are stored with effects.
    claims: BTreeMap<usize, (Life, PartitionId)>,
    /// The offsets that were stored with effects.
    positions: BTreeMap<usize, i64>,
}

/// Records that have begun in a lane.
#[derive(Debug, Default)]
struct Started {
    highest: Option<i64>,
    /// Records that are not done, and the call in which each began.
    open: BTreeMap<i64, u64>,
}

impl Checks {
    pub(super) fn new(_plan: &Plan) -> Self {
        Self {
            failure: None,
            settled: BTreeSet::new(),
            over: BTreeSet::new(),
            effects: BTreeMap::new(),
            dead: BTreeMap::new(),
            lanes: BTreeMap::new(),
            taken: BTreeSet::new(),
            outputs: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_output: 0,
            waits: BTreeMap::new(),
            begun: BTreeMap::new(),
            forced: false,
            deaths: BTreeMap::new(),
            suspects: BTreeSet::new(),
            kills: BTreeMap::new(),
            claims: BTreeMap::new(),
            positions: BTreeMap::new(),
        }
    }

    pub(super) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    pub(super) fn crashed(&mut self) {
        self.forced = true;
    }

    pub(super) fn effect(&mut self, plan: &Plan, cluster: &Cluster, record: &Record) {
        self.check_key(plan, cluster, record);
        *self.effects.entry(record.id).or_default() += 1;
    }

    pub(super) fn died(&mut self, plan: &Plan, cluster: &Cluster, record: &Record) {
        self.check_key(plan, cluster, record);
        *self.dead.entry(record.id).or_default() += 1;
    }

    /// If keys stay in order through retries: a first effect follows all earlier records of its key in the main topic.
    fn check_key(&mut self, plan: &Plan, cluster: &Cluster, record: &Record) {
        let in_order = record.key.is_some() || plan.handler().null_key == NullKey::Serial;
        if !plan.holds_keys() || !in_order {
            return;
        }
        let is_over = |id: &u64| self.effects.contains_key(id) || self.dead.contains_key(id);
        let before = cluster.logs[record.origin]
            .values()
            .filter(|other| other.key == record.key && other.id < record.id);
        let mut ids = before.map(|other| other.id);
        if let Some(other) = ids.find(|id| !is_over(id)) {
            self.fail(format!("record {} overtakes {other} of its key", record.id));
        }
    }

    pub(super) fn settle(&mut self, partition: usize, offset: i64) {
        self.settled.insert((partition, offset));
    }

    /// Its assignment is done with a record.
    pub(super) fn over(&mut self, run: &Run) {
        self.over.insert((run.life.number, run.id, run.offset));
    }

    pub(super) fn is_settled(&self, partition: usize, offset: i64) -> bool {
        self.settled.contains(&(partition, offset))
    }

    /// A handler begins.
    pub(super) fn started(&mut self, now: i64, plan: &Plan, cluster: &Cluster, run: &Run) {
        let place = format!("{} offset {}", name(plan, run.partition), run.offset);
        if run.base.as_ref().is_some_and(|base| base.tells(run.offset)) {
            self.fail(format!("{place} is repeated although the commit says that it is done"));
        }
        let due = run.data.retry.and_then(|retry| retry.due_ms);
        let wait = self
            .waits
            .get(&(run.life.number, run.id, run.offset))
            .map(|wait| wait.0);
        if due.into_iter().chain(wait).any(|at| at > now) {
            self.fail(format!("{place} is tried again early"));
        }
        if plan.config.delivery == Delivery::AtMostOnce {
            let committed = cluster.committed[run.partition]
                .as_ref()
                .map_or(0, |committed| committed.offset);
            if run.offset >= committed {
                self.fail(format!("{place} is handed out, but {committed} is committed"));
            }
            let who = (run.life.number, run.id);
            if *self.begun.entry((run.partition, run.offset)).or_insert(who) != who {
                self.fail(format!("{place} is handed out twice"));
            }
        }
        self.check_told(plan, cluster, run, &place);
        self.check_order(plan, run, &place);
    }

    fn check_order(&mut self, plan: &Plan, run: &Run, place: &str) {
        let Some(lane) = lane_of(plan, run) else { return };
        let call_of = (run.life.number, run.id, run.offset);
        self.taken.remove(&call_of);
        self.calls.entry(call_of).or_default().insert(run.call);
        let (over, taken) = (&self.over, &self.taken);
        let lane = self.lanes.entry(lane).or_default();
        let is_taken = |offset: i64| taken.contains(&(run.life.number, run.id, offset));
        lane.open
            .retain(|offset, _| !over.contains(&(run.life.number, run.id, *offset)));
        let is_new = !lane.open.contains_key(&run.offset);
        let overtaken = lane
            .open
            .iter()
            .find(|(offset, call)| **offset < run.offset && **call != run.call && !is_taken(**offset));
        let overtaken = overtaken.map(|(offset, _)| *offset);
        let late = is_new && lane.highest.is_some_and(|highest| run.offset < highest);
        lane.open.insert(run.offset, run.call);
        lane.highest = lane.highest.max(Some(run.offset));
        if let Some(offset) = overtaken {
            self.fail(format!("{place} begins before {offset}, which has its key, is done"));
        } else if late {
            self.fail(format!("{place} is out of order"));
        }
    }

    /// A handler failed, with the backoff that must be waited for.
    pub(super) fn failed(&mut self, now: i64, plan: &Plan, run: &Run) {
        let retry = &plan.handler().retry;
        let wait = self.waits.entry((run.life.number, run.id, run.offset)).or_default();
        wait.1 += 1;
        let mut plain = (retry.first_ms << (wait.1 - 1).min(20)).min(retry.max_ms);
        if plan.holds_keys() {
            // The delays of retry topics are waited for in between.
            plain = retry.first_ms.min(plan.tiers()[0]);
        }
        wait.0 = now + plain - plain * i64::from(retry.jitter_percent) / 100 - 1;
    }

    /// Its partition was paused: after an operator resumed it, its waits are short again.
    pub(super) fn begins_anew(&mut self, life: Life, id: PartitionId, offset: i64) {
        self.waits.remove(&(life.number, id, offset));
    }

    pub(super) fn asked_for_later(&mut self, now: i64, run: &Run) {
        let wait = self.waits.entry((run.life.number, run.id, run.offset)).or_default();
        wait.0 = now + 70;
    }

    /// The group accepts a commit.
    pub(super) fn committed(&mut self, plan: &Plan, cluster: &Cluster, partition: usize, commit: &CommittedOffset) {
        let place = name(plan, partition);
        let before = cluster.committed[partition]
            .as_ref()
            .map_or(0, |committed| committed.offset);
        if commit.offset < before {
            self.fail(format!(
                "the commit of {place} goes back from {before} to {}",
                commit.offset
            ));
        }
        if plan.config.delivery == Delivery::AtMostOnce {
            return self.check_ahead(plan, cluster, partition, commit.offset);
        }
        self.note_suspect(partition, commit);
        let undone = |range: FinishedRange| {
            let mut records = cluster.logs[partition].range(range.start..range.end.max(range.start));
            records
                .find(|(offset, _)| !self.is_settled(partition, **offset))
                .map(|(offset, _)| *offset)
        };
        let start = before.min(commit.offset);
        let below = undone(FinishedRange {
            start,
            end: commit.offset,
        });
        let map = commit_map::decode(&commit.metadata, commit.offset);
        let above = map.clone().unwrap_or_default().into_iter().find_map(undone);
        if let Some(offset) = below {
            self.fail(format!(
                "{place} is committed up to {}, but {offset} is not done",
                commit.offset
            ));
        }
        if let Some(offset) = above {
            self.fail(format!("the commit of {place} says that {offset} is done"));
        }
        if let Err(error) = map {
            self.fail(format!("the map of {place} cannot be read: {error}"));
        }
    }

    /// At most once: committed records that did not begin are no more than handlers may have at once.
    fn check_ahead(&mut self, plan: &Plan, cluster: &Cluster, partition: usize, offset: i64) {
        let before = cluster.committed[partition].as_ref().map_or(0, |it| it.offset);
        let records = cluster.logs[partition].range(before..offset.max(before));
        let step = records.filter(|(offset, _)| !self.begun.contains_key(&(partition, **offset)));
        let (step, most) = (step.count(), plan.ahead_max());
        if step > most {
            let place = name(plan, partition);
            self.fail(format!(
                "{step} records of {place} are committed at once, and {most} may be"
            ));
        }
    }

    /// A new owner has claimed a partition: no effect of an earlier one follows.
    pub(super) fn claimed(&mut self, life: Life, partition: usize, id: PartitionId) {
        self.claims.insert(partition, (life, id));
    }

    /// A transaction with an effect was committed.
    pub(super) fn committed_effect(&mut self, plan: &Plan, run: &Run) {
        if self.claims.get(&run.partition) != Some(&(run.life, run.id)) {
            let (place, owner) = (name(plan, run.partition), run.life.tag());
            let offset = run.offset;
            self.fail(format!(
                "the effect of {place} offset {offset} by {owner} follows the claim of another owner"
            ));
        }
    }

    /// The state that the next owner of a partition would find.
    fn found(&self, cluster: &Cluster, partition: usize) -> Base {
        let committed = cluster.committed[partition].as_ref();
        let offset = committed.map_or(0, |committed| committed.offset);
        let stored = self.positions.get(&partition).copied().unwrap_or(0);
        Base::at(committed, offset.max(stored))
    }

    /// An offset is stored with an effect: all records below are done.
    pub(super) fn stored(&mut self, plan: &Plan, cluster: &Cluster, partition: usize, offset: i64) {
        let position = self.positions.entry(partition).or_default();
        *position = offset.max(*position);
        let mut below = cluster.logs[partition].range(..offset);
        if let Some((undone, _)) = below.find(|(offset, _)| !self.is_settled(partition, **offset)) {
            let place = name(plan, partition);
            self.fail(format!("{place} is stored up to {offset}, but {undone} is not done"));
        }
    }

    /// A partition was revoked in order: the group knows all that was done.
    pub(super) fn released(&mut self, plan: &Plan, cluster: &Cluster, partition: usize, done: &BTreeSet<i64>) {
        let base = Base::new(cluster.committed[partition].as_ref());
        if let Some(offset) = done.iter().find(|offset| !base.tells(**offset)) {
            let place = name(plan, partition);
            self.fail(format!("{place} was given back without a word that {offset} is done"));
        }
    }

    /// The final check, after a time without faults.
    pub(super) fn settled(&mut self, plan: &Plan, cluster: &Cluster) {
        for partition in 0..plan.partitions {
            for Record { id, .. } in cluster.logs[partition].values() {
                let [effects, dead] = [&self.effects, &self.dead].map(|map| map.get(id).copied().unwrap_or(0));
                let times = effects + dead;
                let what = match plan.config.delivery {
                    Delivery::AtLeastOnce if times == 0 => "is lost",
                    Delivery::AtLeastOnce if plan.stores && effects > 1 => "has several effects",
                    Delivery::AtMostOnce if times == 0 && !self.forced => "is lost",
                    Delivery::AtMostOnce if times > 1 => "is done more than once",
                    Delivery::ExactlyOnce if times != 1 => "is not done exactly once",
                    _ => continue,
                };
                return self.fail(format!(
                    "record {id} {what}: {effects} times done, {dead} times given up"
                ));
            }
        }
    }
}

/// The lane of a call, if order matters.
fn lane_of(plan: &Plan, run: &Run) -> Option<Lane> {
    let handler = plan.handler();
    let key = match (handler.order, run.data.key, handler.null_key) {
        (Order::Unordered, ..) | (Order::Key, None, NullKey::Unordered) => return None,
        (Order::Partition, ..) => None,
        (Order::Key, key, _) => Some(key),
    };
    Some((run.life.number, run.id, key))
}

/// The committed state when a partition was assigned.
#[derive(Debug, Clone, Default)]
pub(super) struct Base {
    pub(super) offset: i64,
    finished: Vec<FinishedRange>,
    pub(super) starts: CrashCounters,
}

impl Base {
    /// The state of an owner that begins at `position`, above the commit if offsets are stored with effects.
    pub(super) fn at(committed: Option<&CommittedOffset>, position: i64) -> Self {
        let base = Self::new(committed);
        let metadata = CommitMetadata {
            finished: base.finished,
            crashes: base.starts,
        };
        let metadata = metadata.since(base.offset, position);
        Self {
            offset: position,
            finished: metadata.finished,
            starts: metadata.crashes,
        }
    }

    pub(super) fn new(committed: Option<&CommittedOffset>) -> Self {
        let Some(committed) = committed else {
            return Self::default();
        };
        let told = commit_map::read(&committed.metadata, committed.offset).unwrap_or_default();
        Self {
            offset: committed.offset,
            finished: told.finished,
            starts: told.crashes,
        }
    }

    pub(super) fn tells(&self, offset: i64) -> bool {
        offset < self.offset
            || self
                .finished
                .iter()
                .any(|range| range.start <= offset && offset < range.end)
    }
}

/// The limits of calls while a breaker is half open.
#[derive(Debug, Default)]
pub(super) struct Probes {
    pub(super) under_way: BTreeSet<milena_machines::app::RecordId>,
}

impl Life {
    pub(super) fn tag(self) -> String {
        format!("{}.{}", self.instance, self.number)
    }
}

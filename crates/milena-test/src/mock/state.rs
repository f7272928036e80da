//! State shared by a mock and its script.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    time::Duration,
};

use milena_client::{
    config::{AutoOffsetReset, ConsumerConfig},
    consumer::{
        CommitError, ConsumerRecords, ErrorCode, OffsetAndMetadata, OffsetError, Offsets, PollError, Position,
        SubscribeError, TopicPartition, TopicPattern,
    },
};

use milena_machines::fetch::{FetchErrorAction, FetchFrom, Fetchable, Positions, ResetPolicy, ResetTo};

use super::{
    Call, MockScript,
    log::{EPOCH, Log},
};

/// The node that leads all partitions of a mock.
const NODE: i32 = 1;

pub(super) struct State {
    pub(super) config: ConsumerConfig,
    pub(super) subscription: Subscription,
    pub(super) positions: Positions,
    pub(super) logs: BTreeMap<TopicPartition, Log>,
    pub(super) committed: Offsets,
    pub(super) commit_failures: VecDeque<OffsetError>,
    pub(super) steps: VecDeque<Step>,
    /// Pending calls of the listener.
    pub(super) events: VecDeque<Event>,
    pub(super) calls: Vec<Call>,
    /// Since the consumer was made.
    pub(super) now: Duration,
    commit_due: Duration,
    /// Index of the partition whose records come first.
    turn: usize,
    /// A poll without records waits for some.
    pub(super) waits: bool,
    pub(super) closed: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Subscription {
    None,
    Topics(BTreeSet<String>),
    /// It matches whole names.
    Pattern(TopicPattern),
    Manual,
}

impl Subscription {
    fn has(&self, topic: &str) -> bool {
        match self {
            Self::Topics(topics) => topics.contains(topic),
            Self::Pattern(pattern) => pattern.matches(topic),
            Self::None | Self::Manual => false,
        }
    }
}

impl fmt::Display for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topics(topics) => write!(f, "{topics:?}"),
            Self::Pattern(pattern) => write!(f, "{pattern:?}"),
            Self::None | Self::Manual => f.write_str("no topics"),
        }
    }
}

/// One step of the script.
pub(super) enum Step {
    Rebalance {
        target: BTreeSet<TopicPartition>,
        eagerly: bool,
    },
    Lose,
    Fail(PollError),
    Nothing,
    Run(Box<dyn FnOnce(&MockScript) + Send>),
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    Revoked(Vec<TopicPartition>),
    Lost(Vec<TopicPartition>),
    Assigned {
        added: Vec<TopicPartition>,
        all: BTreeSet<TopicPartition>,
    },
}

impl State {
    pub(super) fn new(config: ConsumerConfig) -> Self {
        let policy = match config.auto_offset_reset {
            AutoOffsetReset::Earliest => ResetPolicy::Earliest,
            AutoOffsetReset::Latest => ResetPolicy::Latest,
            AutoOffsetReset::None => ResetPolicy::None,
            AutoOffsetReset::ByDuration(duration) => ResetPolicy::ByDuration {
                millis: millis(duration),
            },
        };
        let mut state = Self {
            subscription: Subscription::None,
            positions: Positions::new(policy, config.group_id.is_some(), 0),
            logs: BTreeMap::new(),
            committed: Offsets::new(),
            commit_failures: VecDeque::new(),
            steps: VecDeque::new(),
            events: VecDeque::new(),
            calls: vec![],
            now: Duration::ZERO,
            commit_due: Duration::ZERO,
            turn: 0,
            waits: false,
            closed: false,
            config,
        };
        state.restart_commits();
        state
    }

    pub(super) fn now_ms(&self) -> i64 {
        millis(self.now)
    }

    pub(super) fn subscribe(&mut self, topics: BTreeSet<String>) -> Result<(), SubscribeError> {
        if topics.iter().any(|topic| topic.trim().is_empty()) {
            return Err(SubscribeError::EmptyTopic);
        }
        if matches!(self.subscription, Subscription::Manual | Subscription::Pattern(_)) {
            return Err(SubscribeError::Exclusive);
        }
        if self.config.group_id.is_none() {
            return Err(SubscribeError::NoGroup);
        }
        self.calls.push(Call::Subscribe(topics.clone()));
        let gone = self
            .positions
            .assignment()
            .filter(|partition| !topics.contains(&*partition.topic));
        let gone: Vec<TopicPartition> = gone.cloned().collect();
        self.positions.block(&gone, true);
        self.subscription = Subscription::Topics(topics);
        Ok(())
    }

    pub(super) fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        let matcher = TopicPattern::new(pattern)?;
        if matches!(self.subscription, Subscription::Manual | Subscription::Topics(_)) {
            return Err(SubscribeError::Exclusive);
        }
        if self.config.group_id.is_none() {
            return Err(SubscribeError::NoGroup);
        }
        self.calls.push(Call::SubscribePattern(pattern.to_owned()));
        self.subscription = Subscription::Pattern(matcher);
        Ok(())
    }

    /// The topics of the mock that are subscribed to.
    pub(super) fn matched_topics(&self) -> BTreeSet<String> {
        let topics = self.logs.keys().map(|partition| partition.topic.to_string());
        topics.filter(|topic| self.subscription.has(topic)).collect()
    }

    pub(super) fn assign(&mut self, partitions: BTreeSet<TopicPartition>) -> Result<(), SubscribeError> {
        for TopicPartition { topic, partition } in &partitions {
            if topic.trim().is_empty() {
                return Err(SubscribeError::EmptyTopic);
            }
            if *partition < 0 {
                let (topic, partition) = (topic.to_string(), *partition);
                return Err(SubscribeError::NegativePartition { topic, partition });
            }
        }
        if matches!(self.subscription, Subscription::Topics(_) | Subscription::Pattern(_)) {
            return Err(SubscribeError::Exclusive);
        }
        self.calls.push(Call::Assign(partitions.clone()));
        self.subscription = if partitions.is_empty() {
            Subscription::None
        } else {
            Subscription::Manual
        };
        self.positions.assign(partitions);
        Ok(())
    }

    /// Checks at the start of a poll.
    pub(super) fn begin_poll(&mut self) -> Result<(), PollError> {
        if matches!(self.subscription, Subscription::None) {
            return Err(PollError::NotSubscribed);
        }
        if self.now >= self.commit_due {
            // If it fails, the next is due in its time, as with the real one.
            let _ = self.commit_automatically(None);
            self.restart_commits();
        }
        Ok(())
    }

    fn restart_commits(&mut self) {
        let interval_ms = u64::try_from(self.config.auto_commit_interval_ms).unwrap_or(0);
        self.commit_due = self.now + Duration::from_millis(interval_ms);
    }

    /// Applies a new assignment of the group.
    pub(super) fn rebalance(&mut self, target: BTreeSet<TopicPartition>, eagerly: bool) {
        if matches!(self.subscription, Subscription::None | Subscription::Manual) {
            panic!("there is nothing to rebalance: the consumer has not subscribed to topics");
        }
        let other = target.iter().find(|partition| !self.subscription.has(&partition.topic));
        if let Some(other) = other {
            panic!(
                "{other} cannot be assigned: the consumer has subscribed to {}",
                self.subscription
            );
        }
        let owned: BTreeSet<TopicPartition> = self.positions.assignment().cloned().collect();
        let stays = |partition: &&TopicPartition| !eagerly && target.contains(*partition);
        let gone: Vec<TopicPartition> = owned.iter().filter(|partition| !stays(partition)).cloned().collect();
        let added = target
            .iter()
            .filter(|partition| eagerly || !owned.contains(*partition))
            .cloned()
            .collect();
        if !gone.is_empty() {
            self.events.push_back(Event::Revoked(gone));
        }
        self.events.push_back(Event::Assigned { added, all: target });
    }

    /// Loses all partitions.
    pub(super) fn lose(&mut self) {
        let gone: Vec<TopicPartition> = self.positions.assignment().cloned().collect();
        if !gone.is_empty() {
            self.events.push_back(Event::Lost(gone));
        }
    }

    /// The consumer leaves the group, if it is in one.
    pub(super) fn revoke_all(&mut self) {
        let gone: Vec<TopicPartition> = self.positions.assignment().cloned().collect();
        if matches!(self.subscription, Subscription::Topics(_) | Subscription::Pattern(_)) && !gone.is_empty() {
            self.events.push_back(Event::Revoked(gone));
        }
    }

    pub(super) fn begin_event(&mut self, event: &Event) {
        match event {
            Event::Revoked(gone) | Event::Lost(gone) => self.positions.block(gone, true),
            Event::Assigned { added, all } => {
                self.positions.assign(all.iter().cloned());
                self.positions.block(added, true);
            }
        }
    }

    pub(super) fn finish_event(&mut self, event: &Event) {
        match event {
            Event::Revoked(gone) | Event::Lost(gone) => {
                let stay = self
                    .positions
                    .assignment()
                    .filter(|partition| !gone.contains(partition));
                let stay: Vec<TopicPartition> = stay.cloned().collect();
                self.positions.assign(stay);
            }
            Event::Assigned { added, .. } => {
                self.positions.block(added, false);
                self.restart_commits();
            }
        }
    }

    /// Resets the positions of partitions without one.
    pub(super) fn settle(&mut self) {
        let now_ms = self.now_ms();
        for (partition, epoch) in self.positions.poll_committed(now_ms) {
            let committed = self.committed.get(&partition).map(|committed| Position {
                offset: committed.offset,
                epoch: committed.leader_epoch,
            });
            self.positions.handle_committed(&partition, epoch, committed);
        }
        for needed in self.positions.poll_resets(now_ms) {
            let log = self.logs.entry(needed.partition.clone()).or_default();
            let offset = match needed.to {
                ResetTo::Earliest => log.beginning,
                ResetTo::Latest => log.end,
                ResetTo::Ago { millis } => {
                    let found = log.at_time(now_ms - millis);
                    found.map_or(log.end, |found| found.offset)
                }
            };
            let epoch = Some(EPOCH);
            self.positions
                .handle_reset(&needed.partition, needed.epoch, Position { offset, epoch });
        }
    }

    pub(super) fn take_records(&mut self) -> Result<ConsumerRecords, PollError> {
        let mut records = ConsumerRecords::default();
        self.settle();
        let mut fetchable = self.fetchable();
        while let Some(place) = fetchable.iter().position(|fetchable| self.is_out_of_range(fetchable)) {
            let lost = fetchable.remove(place);
            let code = ErrorCode::OffsetOutOfRange;
            let verdict = self
                .positions
                .handle_fetch_error(self.now_ms(), &lost.partition, lost.epoch, code);
            if verdict == FetchErrorAction::ResetWhenDrained {
                self.positions.handle_end_of_range(&lost.partition, lost.epoch);
            }
            self.settle();
            fetchable = self.fetchable();
        }
        if let Some(error) = self.positions.stuck() {
            return Err(error.clone().into());
        }
        if !fetchable.is_empty() {
            self.turn %= fetchable.len();
            fetchable.rotate_left(self.turn);
            self.turn += 1;
        }
        for fetchable in fetchable {
            let left = self.config.max_poll_records - records.len();
            self.take_partition(&fetchable, left, &mut records);
        }
        Ok(records)
    }

    fn fetchable(&mut self) -> Vec<Fetchable> {
        let leader = FetchFrom {
            node: NODE,
            leader_epoch: EPOCH,
        };
        self.positions
            .fetchable(self.now_ms(), NODE, |_| Some(leader), |_| true)
    }

    fn is_out_of_range(&self, fetchable: &Fetchable) -> bool {
        let (beginning, end) = self.ends(&fetchable.partition);
        !(beginning..=end).contains(&fetchable.position.offset)
    }

    pub(super) fn ends(&self, partition: &TopicPartition) -> (i64, i64) {
        self.logs.get(partition).map_or((0, 0), |log| (log.beginning, log.end))
    }

    fn take_partition(&mut self, fetchable: &Fetchable, max: usize, records: &mut ConsumerRecords) {
        let Fetchable {
            partition,
            epoch,
            position,
            ..
        } = fetchable;
        let Some(log) = self.logs.get(partition) else { return };
        self.positions.handle_ends(partition, log.end, log.end, log.beginning);
        if max == 0 {
            return;
        }
        let Some(set) = log.read(position.offset, max) else {
            return;
        };
        let Some(last) = set.iter().next_back().map(|record| record.offset()) else {
            return;
        };
        let next = Position {
            offset: last + 1,
            epoch: Some(EPOCH),
        };
        records.add(partition, Some(EPOCH), set);
        self.positions.handle_fetched(partition, *epoch, position.offset, next);
        self.positions.handle_delivered(partition, *epoch, next);
    }

    /// Offsets after the records that were returned.
    pub(super) fn consumed(&self, of: Option<&[TopicPartition]>) -> Offsets {
        let consumed = self.positions.consumed();
        let wanted = consumed.filter(|(partition, _)| of.is_none_or(|of| of.contains(partition)));
        let offsets = wanted.map(|(partition, position)| {
            let committed = OffsetAndMetadata {
                offset: position.offset,
                leader_epoch: position.epoch,
                metadata: Default::default(),
            };
            (partition.clone(), committed)
        });
        offsets.collect()
    }

    /// Commits the consumed offsets, if automatic commits are enabled.
    pub(super) fn commit_automatically(&mut self, of: Option<&[TopicPartition]>) -> Result<(), CommitError> {
        let offsets = self.consumed(of);
        if self.config.group_id.is_none() || !self.config.enable_auto_commit || offsets.is_empty() {
            return Ok(());
        }
        self.commit(offsets)
    }

    pub(super) fn commit(&mut self, offsets: Offsets) -> Result<(), CommitError> {
        if self.config.group_id.is_none() {
            return Err(CommitError::NoGroup);
        }
        let negative = offsets.iter().find(|(_, committed)| committed.offset < 0);
        if let Some((partition, committed)) = negative {
            return Err(CommitError::NegativeOffset {
                partition: partition.clone(),
                offset: committed.offset,
            });
        }
        if let Some(error) = self.commit_failures.pop_front() {
            let failed = offsets.into_keys().map(|partition| (partition, error));
            return Err(CommitError::Partitions(failed.collect()));
        }
        self.committed.extend(offsets);
        Ok(())
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

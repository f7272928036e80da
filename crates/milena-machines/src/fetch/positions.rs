//! Where a consumer stands in each of its partitions.

use std::collections::BTreeMap;

use milena_wire::errors::ErrorCode;

use super::{
    partition::{Partition, State},
    position::{FetchFrom, Position, ResetPolicy, ResetTo},
};
use crate::TopicPartition;

/// Counts the changes of place: what was fetched or found out in an earlier epoch is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PositionEpoch(u64);

/// What only the application can decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error(
        "{partition} has no committed offset and auto.offset.reset is none: seek to where reading should begin, or set \
         auto.offset.reset"
    )]
    NoOffset { partition: TopicPartition },
    #[error(
        "{partition} has no record at offset {offset} (it was removed, or never written) and auto.offset.reset is none: \
         seek to where reading should go on"
    )]
    OffsetOutOfRange { partition: TopicPartition, offset: i64 },
    #[error(
        "{partition} was cut off below offset {offset}, which had been read{}: seek to where reading should go on",
        .divergent.map_or_else(String::new, |at| format!("; it agrees with what was read up to offset {}", at.offset))
    )]
    LogTruncation {
        partition: TopicPartition,
        offset: i64,
        /// Where the partition and what was read part; `None` if no broker knows.
        divergent: Option<Position>,
    },
    #[error("not allowed to read the topic {topic}: ask for READ on it")]
    TopicAuthorization { topic: String },
    #[error("the broker cannot read {partition} at offset {offset}: {code}")]
    Broker {
        partition: TopicPartition,
        offset: i64,
        code: ErrorCode,
    },
}

/// What an error of a fetch leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchErrorAction {
    /// It is asked for again after a pause.
    Retry,
    /// The same, but the metadata is old.
    RefreshMetadata,
    /// It concerns the place after all that is buffered: [`Positions::handle_end_of_range`] once that is handed out.
    ResetWhenDrained,
    /// The application must know, once all that is buffered is handed out.
    Raise(FetchError),
}

/// A partition that can be read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetchable {
    pub partition: TopicPartition,
    pub epoch: PositionEpoch,
    pub position: Position,
    /// The leader's epoch, -1 if it is not known.
    pub leader_epoch: i32,
}

/// A partition for which a leader must be asked where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetNeeded {
    pub partition: TopicPartition,
    pub epoch: PositionEpoch,
    pub to: ResetTo,
}

/// The partitions of one consumer. Every change of place begins a new [`PositionEpoch`].
#[derive(Debug)]
pub struct Positions {
    policy: ResetPolicy,
    /// Whether there is a group whose committed offsets count.
    has_group: bool,
    retry_backoff_ms: i64,
    partitions: BTreeMap<TopicPartition, Partition>,
    last_epoch: u64,
}

impl Positions {
    pub fn new(policy: ResetPolicy, has_group: bool, retry_backoff_ms: i64) -> Self {
        Self {
            policy,
            has_group,
            retry_backoff_ms,
            partitions: BTreeMap::new(),
            last_epoch: 0,
        }
    }

    // What is assigned.

    /// Makes the assignment exactly this. What was assigned before keeps its place, and stays paused or not.
    pub fn assign(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) {
        let mut old = std::mem::take(&mut self.partitions);
        for partition in partitions {
            let kept = old.remove(&partition);
            let state = kept.unwrap_or_else(|| Partition::new(self.next_epoch(), self.first_state(&partition)));
            self.partitions.insert(partition, state);
        }
    }

    pub fn clear(&mut self) {
        self.partitions.clear();
    }

    pub fn contains(&self, partition: &TopicPartition) -> bool {
        self.partitions.contains_key(partition)
    }

    pub fn assignment(&self) -> impl ExactSizeIterator<Item = &TopicPartition> {
        self.partitions.keys()
    }

    /// Keeps partitions from being read and handed out, or ends that. Partitions that are not assigned are left out.
    pub fn block<'a>(&mut self, partitions: impl IntoIterator<Item = &'a TopicPartition>, blocked: bool) {
        for partition in partitions {
            if let Some(state) = self.partitions.get_mut(partition) {
                state.blocked = blocked;
                state.is_requested = false;
            }
        }
    }

    /// Somebody needs to know where a partition begins, although it is blocked: a listener does that, while the group waits
    /// for it.
    pub fn request_position(&mut self, partition: &TopicPartition) {
        if let Some(state) = self.partitions.get_mut(partition) {
            state.is_requested = true;
        }
    }

    /// Says whether it is assigned.
    pub fn pause(&mut self, partition: &TopicPartition, paused: bool) -> bool {
        let state = self.partitions.get_mut(partition);
        state.map(|state| state.paused = paused).is_some()
    }

    pub fn paused(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions
            .iter()
            .filter(|(_, state)| state.paused)
            .map(|(partition, _)| partition)
    }

    // Where to read.

    /// Says whether it is assigned.
    pub fn seek(&mut self, partition: &TopicPartition, position: Position) -> bool {
        let epoch = self.next_epoch();
        let state = self.partitions.get_mut(partition);
        state.map(|state| state.place(epoch, position)).is_some()
    }

    /// The leader will be asked. Says whether it is assigned.
    pub fn seek_to(&mut self, partition: &TopicPartition, to: ResetTo) -> bool {
        let epoch = self.next_epoch();
        let state = self.partitions.get_mut(partition);
        state
            .map(|state| state.change(epoch, State::NeedsReset { to, asked: false }))
            .is_some()
    }

    /// The next record to hand out; `None` if it is not assigned, or the place is not found out yet.
    pub fn position(&self, partition: &TopicPartition) -> Option<Position> {
        let state = self.partitions.get(partition)?;
        state.is_ready().then_some(state.consumed)
    }

    /// The places to commit: of all partitions that have one.
    pub fn consumed(&self) -> impl Iterator<Item = (&TopicPartition, Position)> {
        self.partitions
            .iter()
            .filter(|(_, state)| state.is_ready())
            .map(|(partition, state)| (partition, state.consumed))
    }

    /// Records that are there and not handed out yet; `None` until a fetch has told.
    pub fn lag(&self, partition: &TopicPartition, read_committed: bool) -> Option<i64> {
        let state = self.partitions.get(partition).filter(|state| state.is_ready())?;
        let end = if read_committed {
            state.last_stable_offset
        } else {
            state.high_watermark
        };
        Some((end? - state.consumed.offset).max(0))
    }

    /// Records that could be lost to retention before they are handed out; `None` until a fetch has told.
    pub fn lead(&self, partition: &TopicPartition) -> Option<i64> {
        let state = self.partitions.get(partition).filter(|state| state.is_ready())?;
        Some((state.consumed.offset - state.log_start_offset?).max(0))
    }

    // What must be found out first.

    /// Whether anything keeps a partition from being read but time and the application.
    pub fn is_settled(&self) -> bool {
        let unsettled = |state: &Partition| {
            state.needs_place() && matches!(state.state, State::NeedsCommitted { .. } | State::NeedsReset { .. })
        };
        !self.partitions.values().any(unsettled)
    }

    /// Partitions whose committed offset is needed; each is named once until an answer or a failure is told.
    pub fn poll_committed(&mut self, now_ms: i64) -> Vec<(TopicPartition, PositionEpoch)> {
        let mut needed = vec![];
        for (partition, state) in &mut self.partitions {
            let needs_place = state.needs_place();
            if let State::NeedsCommitted { asked: asked @ false } = &mut state.state
                && needs_place
                && state.retry_at_ms <= now_ms
            {
                *asked = true;
                needed.push((partition.clone(), state.epoch));
            }
        }
        needed
    }

    pub fn handle_committed(&mut self, partition: &TopicPartition, epoch: PositionEpoch, committed: Option<Position>) {
        let policy = self.policy;
        let Some(state) = self.in_epoch(partition, epoch) else {
            return;
        };
        match (committed, policy.target()) {
            (Some(position), _) => state.place(epoch, position),
            (None, Some(to)) => state.change(epoch, State::NeedsReset { to, asked: false }),
            (None, None) => {
                let partition = partition.clone();
                state.change(epoch, State::Stuck(FetchError::NoOffset { partition }));
            }
        }
    }

    /// Partitions whose leader must be asked; each is named once until an answer or a failure is told.
    pub fn poll_resets(&mut self, now_ms: i64) -> Vec<ResetNeeded> {
        let mut needed = vec![];
        for (partition, state) in &mut self.partitions {
            let needs_place = state.needs_place();
            if let State::NeedsReset {
                to,
                asked: asked @ false,
            } = &mut state.state
                && needs_place
                && state.retry_at_ms <= now_ms
            {
                *asked = true;
                let (partition, epoch, to) = (partition.clone(), state.epoch, *to);
                needed.push(ResetNeeded { partition, epoch, to });
            }
        }
        needed
    }

    pub fn handle_reset(&mut self, partition: &TopicPartition, epoch: PositionEpoch, position: Position) {
        if let Some(state) = self.in_epoch(partition, epoch)
            && matches!(state.state, State::NeedsReset { .. })
        {
            state.place(epoch, position);
        }
    }

    /// There was no answer about a committed offset or a reset: it is asked for again after a pause.
    pub fn handle_lookup_failed(&mut self, now_ms: i64, partition: &TopicPartition, epoch: PositionEpoch) {
        let retry_at_ms = now_ms + self.retry_backoff_ms;
        if let Some(state) = self.in_epoch(partition, epoch)
            && let State::NeedsCommitted { asked } | State::NeedsReset { asked, .. } = &mut state.state
        {
            *asked = false;
            state.retry_at_ms = retry_at_ms;
        }
    }

    /// When something can be asked again that a pause holds back now.
    pub fn poll_timeout(&self, now_ms: i64) -> Option<i64> {
        let waiting = self.partitions.values().filter(|state| state.needs_place());
        waiting.map(|state| state.retry_at_ms).filter(|at| *at > now_ms).min()
    }

    // What can be fetched, and what came of it.

    /// What can be read from `node` now. `leader` says who leads a partition, `wants` whether its records have a place.
    pub fn fetchable(
        &mut self,
        now_ms: i64,
        node: i32,
        leader: impl Fn(&TopicPartition) -> Option<FetchFrom>,
        wants: impl Fn(&TopicPartition) -> bool,
    ) -> Vec<Fetchable> {
        let mut fetchable = vec![];
        for (partition, state) in &mut self.partitions {
            let Some(from) = leader(partition) else {
                continue;
            };
            if state.leader_epoch != from.leader_epoch {
                // A new leader decides anew who is near.
                state.leader_epoch = from.leader_epoch;
                state.replica = None;
            }
            state.replica = state.replica.filter(|(_, until_ms)| *until_ms > now_ms);
            if state.replica.map_or(from.node, |(replica, _)| replica) != node {
                continue;
            }
            let waits = !state.is_ready() || state.blocked || state.paused || state.retry_at_ms > now_ms;
            if waits || !wants(partition) {
                let since_ms = state.left_out.map_or(now_ms, |(_, since_ms)| since_ms);
                state.left_out = Some((node, since_ms));
                continue;
            }
            state.left_out = None;
            fetchable.push(Fetchable {
                partition: partition.clone(),
                epoch: state.epoch,
                position: state.fetch,
                leader_epoch: from.leader_epoch,
            });
        }
        fetchable
    }

    /// For how long the partition has been left out that was the last of `node` to be left out of what can be read.
    pub fn left_out_ms(&self, now_ms: i64, node: i32) -> Option<i64> {
        let left_out = self.partitions.values().filter_map(|state| state.left_out);
        let since = left_out
            .filter(|(whose, _)| *whose == node)
            .map(|(_, since_ms)| since_ms);
        since.max().map(|since_ms| now_ms.saturating_sub(since_ms))
    }

    /// Whether something fetched in this epoch may be handed out now; `None` if it is stale.
    pub fn deliverable(&self, partition: &TopicPartition, epoch: PositionEpoch) -> Option<bool> {
        let state = self.partitions.get(partition).filter(|state| state.epoch == epoch)?;
        Some(state.is_ready() && !state.paused && !state.blocked)
    }

    /// Records came that were asked for from the offset `asked` on: the next to ask for is `next`. Says whether they are
    /// wanted still. When the leader has just changed, both may have been asked, and only the first answer counts.
    pub fn handle_fetched(
        &mut self,
        partition: &TopicPartition,
        epoch: PositionEpoch,
        asked: i64,
        next: Position,
    ) -> bool {
        let is_wanted = |state: &&mut Partition| state.is_ready() && state.fetch.offset == asked;
        let state = self.in_epoch(partition, epoch).filter(is_wanted);
        state.map(|state| state.fetch = next).is_some()
    }

    /// What a broker said about the ends of a partition; negative numbers say nothing.
    pub fn handle_ends(&mut self, partition: &TopicPartition, high: i64, last_stable: i64, log_start: i64) {
        let told = |old: Option<i64>, new: i64| if new >= 0 { Some(new) } else { old };
        if let Some(state) = self.partitions.get_mut(partition) {
            state.high_watermark = told(state.high_watermark, high);
            state.last_stable_offset = told(state.last_stable_offset, last_stable);
            state.log_start_offset = told(state.log_start_offset, log_start);
        }
    }

    /// The leader has named a follower that is nearer.
    pub fn handle_preferred_replica(
        &mut self,
        partition: &TopicPartition,
        epoch: PositionEpoch,
        node: i32,
        until_ms: i64,
    ) {
        if let Some(state) = self.in_epoch(partition, epoch) {
            state.replica = Some((node, until_ms));
        }
    }

    /// The follower that a partition is read from; `None` if that is the leader.
    pub fn preferred_replica(&self, partition: &TopicPartition) -> Option<i32> {
        self.partitions.get(partition)?.replica.map(|(node, _)| node)
    }

    /// Nothing more is read from this broker as a follower until a leader names it again.
    pub fn handle_node_lost(&mut self, node: i32) {
        for state in self.partitions.values_mut() {
            state.replica = state.replica.filter(|(replica, _)| *replica != node);
        }
    }

    /// Records up to `next` were handed out.
    pub fn handle_delivered(&mut self, partition: &TopicPartition, epoch: PositionEpoch, next: Position) {
        if let Some(state) = self.in_epoch(partition, epoch) {
            state.consumed = next;
        }
    }

    /// A fetch of `offset` was refused.
    pub fn handle_fetch_error(
        &mut self,
        now_ms: i64,
        partition: &TopicPartition,
        epoch: PositionEpoch,
        code: ErrorCode,
    ) -> FetchErrorAction {
        let retry_at_ms = now_ms + self.retry_backoff_ms;
        let Some(state) = self.in_epoch(partition, epoch) else {
            return FetchErrorAction::Retry;
        };
        let was_follower = state.replica.take().is_some();
        let offset = state.fetch.offset;
        state.retry_at_ms = retry_at_ms;
        let name = || partition.clone();
        match code {
            ErrorCode::OffsetOutOfRange if was_follower => {
                // The follower is behind; the leader knows better.
                state.retry_at_ms = now_ms;
                FetchErrorAction::Retry
            }
            ErrorCode::OffsetOutOfRange => FetchErrorAction::ResetWhenDrained,
            ErrorCode::TopicAuthorizationFailed => FetchErrorAction::Raise(FetchError::TopicAuthorization {
                topic: partition.topic.to_string(),
            }),
            ErrorCode::UnknownLeaderEpoch | ErrorCode::UnknownServerError => FetchErrorAction::Retry,
            ErrorCode::CorruptMessage => FetchErrorAction::Raise(FetchError::Broker {
                partition: name(),
                offset,
                code,
            }),
            code if code.is_retriable() => FetchErrorAction::RefreshMetadata,
            code => FetchErrorAction::Raise(FetchError::Broker {
                partition: name(),
                offset,
                code,
            }),
        }
    }

    /// The offset to read on from does not exist, and all before it is handed out. The policy decides; without one the
    /// application has to, and is told with every poll.
    pub fn handle_end_of_range(&mut self, partition: &TopicPartition, epoch: PositionEpoch) {
        let (policy, next) = (self.policy, self.next_epoch());
        let Some(state) = self.in_epoch(partition, epoch).filter(|state| state.is_ready()) else {
            return;
        };
        let state_after = match policy.target() {
            Some(to) => State::NeedsReset { to, asked: false },
            None => State::Stuck(FetchError::OffsetOutOfRange {
                partition: partition.clone(),
                offset: state.fetch.offset,
            }),
        };
        state.change(next, state_after);
    }

    /// A topic was deleted, and another one made under its name: no offset of the old one means anything there.
    pub fn handle_recreated(&mut self, topic: &str) {
        let of_topic = self.partitions.iter().filter(|(partition, _)| partition.topic == topic);
        let old: Vec<(TopicPartition, PositionEpoch)> = of_topic
            .map(|(partition, state)| (partition.clone(), state.epoch))
            .collect();
        for (partition, epoch) in old {
            self.handle_end_of_range(&partition, epoch);
        }
    }

    /// The leader's log and what was read part at `end`: records from there on were cut off. What is buffered may be among
    /// them and is read again. If what was handed out is, reading goes on at the place where they part; without a policy
    /// the application decides.
    pub fn handle_divergence(&mut self, partition: &TopicPartition, epoch: PositionEpoch, end: Position) {
        let (policy, next) = (self.policy, self.next_epoch());
        let Some(state) = self.in_epoch(partition, epoch).filter(|state| state.is_ready()) else {
            return;
        };
        let consumed = state.consumed;
        if end.offset > consumed.offset {
            state.place(next, consumed);
        } else if policy == ResetPolicy::None {
            let (partition, offset) = (partition.clone(), consumed.offset);
            let divergent = Some(end);
            state.change(
                next,
                State::Stuck(FetchError::LogTruncation {
                    partition,
                    offset,
                    divergent,
                }),
            );
        } else {
            state.place(next, end);
        }
    }

    /// What was fetched is gone or cannot be used: it is read again from where the application stands.
    pub fn refetch(&mut self, partition: &TopicPartition, epoch: PositionEpoch) {
        let next = self.next_epoch();
        if let Some(state) = self.in_epoch(partition, epoch).filter(|state| state.is_ready()) {
            state.place(next, state.consumed);
        }
    }

    /// What the application must hear before anything else; it hears it again until it seeks.
    pub fn stuck(&self) -> Option<&FetchError> {
        self.partitions.values().find_map(|state| match &state.state {
            State::Stuck(error) if !state.blocked => Some(error),
            _ => None,
        })
    }

    /// The same for one partition.
    pub fn stuck_at(&self, partition: &TopicPartition) -> Option<&FetchError> {
        match &self.partitions.get(partition)?.state {
            State::Stuck(error) => Some(error),
            _ => None,
        }
    }

    fn in_epoch(&mut self, partition: &TopicPartition, epoch: PositionEpoch) -> Option<&mut Partition> {
        self.partitions.get_mut(partition).filter(|state| state.epoch == epoch)
    }

    fn next_epoch(&mut self) -> PositionEpoch {
        self.last_epoch += 1;
        PositionEpoch(self.last_epoch)
    }

    fn first_state(&self, partition: &TopicPartition) -> State {
        match (self.has_group, self.policy.target()) {
            (true, _) => State::NeedsCommitted { asked: false },
            (false, Some(to)) => State::NeedsReset { to, asked: false },
            (false, None) => State::Stuck(FetchError::NoOffset {
                partition: partition.clone(),
            }),
        }
    }
}

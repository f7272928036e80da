//! Positions of a consumer in its partitions.

use std::collections::BTreeMap;

use milena_invariant::invariant;
use milena_wire::errors::ErrorCode;

use super::{
    partition::{Partition, State},
    position::{FetchFrom, Position, ResetPolicy, ResetTo},
};
use crate::TopicPartition;

/// Counter of seeks and assignments: a response to a request of an older epoch is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PositionEpoch(u64);

/// Errors that only the application can resolve.
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
        /// The last offset and epoch at which log and consumer agree; `None` if no broker knows.
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

/// The consequence of an error in a fetch response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchErrorAction {
    /// Fetched again after a backoff.
    Retry,
    /// As [`Self::Retry`], and the metadata is outdated.
    RefreshMetadata,
    /// Concerns the offset after all buffered records: [`Positions::handle_end_of_range`] once those are consumed.
    ResetWhenDrained,
    /// Raised by poll once all buffered records are consumed.
    Raise(FetchError),
}

/// A partition that can be fetched now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetchable {
    pub partition: TopicPartition,
    pub epoch: PositionEpoch,
    pub position: Position,
    /// The leader epoch, -1 if it is not known.
    pub leader_epoch: i32,
}

/// A partition whose position its leader must look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetNeeded {
    pub partition: TopicPartition,
    pub epoch: PositionEpoch,
    pub to: ResetTo,
}

/// The positions of one consumer. Every seek and assignment begins a new [`PositionEpoch`].
#[derive(Debug)]
pub struct Positions {
    policy: ResetPolicy,
    /// Whether committed offsets of a group count.
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

    // Assignment.

    /// Replaces the assignment. Partitions that stay keep their position and whether they are paused.
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

    /// Blocks partitions from being fetched and returned by poll, or unblocks them. Partitions that are not assigned
    /// are ignored.
    pub fn block<'a>(&mut self, partitions: impl IntoIterator<Item = &'a TopicPartition>, blocked: bool) {
        for partition in partitions {
            if let Some(state) = self.partitions.get_mut(partition) {
                state.blocked = blocked;
                state.is_position_requested = false;
            }
        }
    }

    /// Requests the position of a blocked partition: a rebalance listener may ask for it while the group waits for the
    /// listener.
    pub fn request_position(&mut self, partition: &TopicPartition) {
        if let Some(state) = self.partitions.get_mut(partition) {
            state.is_position_requested = true;
        }
    }

    /// Pauses or resumes a partition. Returns whether it is assigned.
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

    // Positions.

    /// Moves the position. Returns whether the partition is assigned.
    pub fn seek(&mut self, partition: &TopicPartition, position: Position) -> bool {
        let epoch = self.next_epoch();
        let state = self.partitions.get_mut(partition);
        state.map(|state| state.move_to(epoch, position)).is_some()
    }

    /// Moves the position to an offset that the leader looks up. Returns whether the partition is assigned.
    pub fn seek_to(&mut self, partition: &TopicPartition, to: ResetTo) -> bool {
        let epoch = self.next_epoch();
        let state = self.partitions.get_mut(partition);
        state
            .map(|state| {
                state.change(
                    epoch,
                    State::NeedsReset {
                        to,
                        is_requested: false,
                    },
                )
            })
            .is_some()
    }

    /// The position of the application; `None` if the partition is not assigned or its position is not known yet.
    pub fn position(&self, partition: &TopicPartition) -> Option<Position> {
        let state = self.partitions.get(partition)?;
        state.is_ready().then_some(state.consumed)
    }

    /// The positions to commit, of all partitions that have one.
    pub fn consumed(&self) -> impl Iterator<Item = (&TopicPartition, Position)> {
        self.partitions
            .iter()
            .filter(|(_, state)| state.is_ready())
            .map(|(partition, state)| (partition, state.consumed))
    }

    /// The number of records behind the end of the partition; `None` before the first fetch response.
    pub fn lag(&self, partition: &TopicPartition, read_committed: bool) -> Option<i64> {
        let state = self.partitions.get(partition).filter(|state| state.is_ready())?;
        let end = if read_committed {
            state.last_stable_offset
        } else {
            state.high_watermark
        };
        Some((end? - state.consumed.offset).max(0))
    }

    /// The number of records ahead of the log start offset, where retention deletes; `None` before the first fetch
    /// response.
    pub fn lead(&self, partition: &TopicPartition) -> Option<i64> {
        let state = self.partitions.get(partition).filter(|state| state.is_ready())?;
        Some((state.consumed.offset - state.log_start_offset?).max(0))
    }

    // Lookups.

    /// Whether no partition waits for the lookup of its position.
    pub fn is_settled(&self) -> bool {
        let unsettled = |state: &Partition| {
            state.needs_position() && matches!(state.state, State::NeedsCommitted { .. } | State::NeedsReset { .. })
        };
        !self.partitions.values().any(unsettled)
    }

    /// Partitions whose committed offset must be fetched. Each is returned once until [`Self::handle_committed`] or
    /// [`Self::handle_lookup_failed`].
    pub fn poll_committed(&mut self, now_ms: i64) -> Vec<(TopicPartition, PositionEpoch)> {
        let mut needed = vec![];
        for (partition, state) in &mut self.partitions {
            let needs_position = state.needs_position();
            if let State::NeedsCommitted {
                is_requested: is_requested @ false,
            } = &mut state.state
                && needs_position
                && state.retry_at_ms <= now_ms
            {
                *is_requested = true;
                needed.push((partition.clone(), state.epoch));
            }
        }
        needed
    }

    pub fn handle_committed(&mut self, partition: &TopicPartition, epoch: PositionEpoch, committed: Option<Position>) {
        let policy = self.policy;
        let Some(state) = self.in_epoch(partition, epoch) else {
            return; // Stale.
        };
        match (committed, policy.target()) {
            (Some(position), _) => state.move_to(epoch, position),
            (None, Some(to)) => state.change(
                epoch,
                State::NeedsReset {
                    to,
                    is_requested: false,
                },
            ),
            (None, None) => {
                let partition = partition.clone();
                state.change(epoch, State::Stuck(FetchError::NoOffset { partition }));
            }
        }
    }

    /// Partitions whose leader must look up an offset. Each is returned once until [`Self::handle_reset`] or
    /// [`Self::handle_lookup_failed`].
    pub fn poll_resets(&mut self, now_ms: i64) -> Vec<ResetNeeded> {
        let mut needed = vec![];
        for (partition, state) in &mut self.partitions {
            let needs_position = state.needs_position();
            if let State::NeedsReset {
                to,
                is_requested: is_requested @ false,
            } = &mut state.state
                && needs_position
                && state.retry_at_ms <= now_ms
            {
                *is_requested = true;
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
            state.move_to(epoch, position);
        }
    }

    /// The lookup of a committed offset or of a reset failed: it is repeated after a backoff.
    pub fn handle_lookup_failed(&mut self, now_ms: i64, partition: &TopicPartition, epoch: PositionEpoch) {
        let retry_at_ms = now_ms + self.retry_backoff_ms;
        if let Some(state) = self.in_epoch(partition, epoch)
            && let State::NeedsCommitted { is_requested } | State::NeedsReset { is_requested, .. } = &mut state.state
        {
            *is_requested = false;
            state.retry_at_ms = retry_at_ms;
        }
    }

    /// The end of the next backoff: [`Self::poll_committed`], [`Self::poll_resets`] or [`Self::fetchable`] may return
    /// more then.
    pub fn poll_timeout(&self, now_ms: i64) -> Option<i64> {
        let waiting = self.partitions.values().filter(|state| state.needs_position());
        waiting.map(|state| state.retry_at_ms).filter(|at| *at > now_ms).min()
    }

    // Fetches.

    /// The partitions to fetch from `node` now. `leader` returns the leader of a partition, `wants` whether the buffer
    /// has room for its records.
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
                continue; // Until metadata names a leader.
            };
            if state.leader_epoch != from.leader_epoch {
                // A new leader names its own preferred replica.
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

    /// The time since the last partition of `node` became part of those that fetches leave out. A short time means that
    /// it may be fetchable again soon, so that a long poll without it would delay it.
    pub fn left_out_ms(&self, now_ms: i64, node: i32) -> Option<i64> {
        let left_out = self.partitions.values().filter_map(|state| state.left_out);
        let since = left_out
            .filter(|(left_out_by, _)| *left_out_by == node)
            .map(|(_, since_ms)| since_ms);
        since.max().map(|since_ms| now_ms.saturating_sub(since_ms))
    }

    /// Whether records fetched in this epoch may be returned by poll now; `None` if they are stale.
    pub fn deliverable(&self, partition: &TopicPartition, epoch: PositionEpoch) -> Option<bool> {
        let state = self.partitions.get(partition).filter(|state| state.epoch == epoch)?;
        Some(state.is_ready() && !state.paused && !state.blocked)
    }

    /// Handles records that were fetched from the offset `requested`; `next` is the offset after them. Returns whether they
    /// are still wanted: after a change of leader both may have been asked, and only the first response counts.
    pub fn handle_fetched(
        &mut self,
        partition: &TopicPartition,
        epoch: PositionEpoch,
        requested: i64,
        next: Position,
    ) -> bool {
        let is_wanted = |state: &&mut Partition| state.is_ready() && state.fetch.offset == requested;
        let state = self.in_epoch(partition, epoch).filter(is_wanted);
        state.map(|state| state.fetch = next).is_some()
    }

    /// Handles the offsets at the ends of a partition; negative numbers are unknown.
    pub fn handle_ends(&mut self, partition: &TopicPartition, high: i64, last_stable: i64, log_start: i64) {
        let known = |old: Option<i64>, new: i64| if new >= 0 { Some(new) } else { old };
        if let Some(state) = self.partitions.get_mut(partition) {
            state.high_watermark = known(state.high_watermark, high);
            state.last_stable_offset = known(state.last_stable_offset, last_stable);
            state.log_start_offset = known(state.log_start_offset, log_start);
        }
    }

    /// Handles the preferred read replica that the leader named.
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

    /// The follower that a partition is fetched from; `None` if it is the leader.
    pub fn preferred_replica(&self, partition: &TopicPartition) -> Option<i32> {
        self.partitions.get(partition)?.replica.map(|(node, _)| node)
    }

    /// Stops fetching from this broker as a follower until a leader names it again.
    pub fn handle_node_lost(&mut self, node: i32) {
        for state in self.partitions.values_mut() {
            state.replica = state.replica.filter(|(replica, _)| *replica != node);
        }
    }

    /// Handles that poll returned the records before `next`.
    pub fn handle_delivered(&mut self, partition: &TopicPartition, epoch: PositionEpoch, next: Position) {
        if let Some(state) = self.in_epoch(partition, epoch) {
            invariant!(
                next.offset <= state.fetch.offset,
                "the_application_is_not_ahead_of_fetching"
            );
            state.consumed = next;
        }
    }

    /// Handles the error of a partition in a fetch response.
    pub fn handle_fetch_error(
        &mut self,
        now_ms: i64,
        partition: &TopicPartition,
        epoch: PositionEpoch,
        code: ErrorCode,
    ) -> FetchErrorAction {
        let retry_at_ms = now_ms + self.retry_backoff_ms;
        let Some(state) = self.in_epoch(partition, epoch) else {
            return FetchErrorAction::Retry; // Stale.
        };
        let was_follower = state.replica.take().is_some();
        let offset = state.fetch.offset;
        state.retry_at_ms = retry_at_ms;
        let name = || partition.clone();
        match code {
            ErrorCode::OffsetOutOfRange if was_follower => {
                // The follower is behind; the leader knows the range.
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

    /// Handles an offset out of range, once all records before it are consumed. The reset policy decides; without one
    /// the application has to, and every poll raises the error.
    pub fn handle_end_of_range(&mut self, partition: &TopicPartition, epoch: PositionEpoch) {
        let (policy, next) = (self.policy, self.next_epoch());
        let Some(state) = self.in_epoch(partition, epoch).filter(|state| state.is_ready()) else {
            return; // Stale.
        };
        let state_after = match policy.target() {
            Some(to) => State::NeedsReset {
                to,
                is_requested: false,
            },
            None => State::Stuck(FetchError::OffsetOutOfRange {
                partition: partition.clone(),
                offset: state.fetch.offset,
            }),
        };
        state.change(next, state_after);
    }

    /// Handles a topic that was deleted and created again: no offset of the old one has a meaning there.
    pub fn handle_recreated(&mut self, topic: &str) {
        let of_topic = self.partitions.iter().filter(|(partition, _)| partition.topic == topic);
        let old: Vec<(TopicPartition, PositionEpoch)> = of_topic
            .map(|(partition, state)| (partition.clone(), state.epoch))
            .collect();
        for (partition, epoch) in old {
            self.handle_end_of_range(&partition, epoch);
        }
    }

    /// Handles a truncation of the leader's log: log and consumer agree up to `end` only.
    ///
    /// Buffered records may be among the truncated ones and are fetched again. If consumed records are, the position
    /// moves back to `end`; without a reset policy the application decides.
    pub fn handle_divergence(&mut self, partition: &TopicPartition, epoch: PositionEpoch, end: Position) {
        let (policy, next) = (self.policy, self.next_epoch());
        let Some(state) = self.in_epoch(partition, epoch).filter(|state| state.is_ready()) else {
            return; // Stale.
        };
        let consumed = state.consumed;
        if end.offset > consumed.offset {
            state.move_to(next, consumed);
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
            state.move_to(next, end);
        }
    }

    /// Drops fetched records that cannot be used, and fetches again from the position of the application.
    pub fn refetch(&mut self, partition: &TopicPartition, epoch: PositionEpoch) {
        let next = self.next_epoch();
        if let Some(state) = self.in_epoch(partition, epoch).filter(|state| state.is_ready()) {
            state.move_to(next, state.consumed);
        }
    }

    /// The first error that only a seek resolves; it stays until then.
    pub fn stuck(&self) -> Option<&FetchError> {
        self.partitions.values().find_map(|state| match &state.state {
            State::Stuck(error) if !state.blocked => Some(error),
            _ => None,
        })
    }

    /// As [`Self::stuck`], for one partition.
    pub fn stuck_at(&self, partition: &TopicPartition) -> Option<&FetchError> {
        match &self.partitions.get(partition)?.state {
            State::Stuck(error) => Some(error),
            _ => None,
        }
    }

    /// The state of a partition; `None` if `epoch` is stale: the partition was revoked or its position moved meanwhile.
    fn in_epoch(&mut self, partition: &TopicPartition, epoch: PositionEpoch) -> Option<&mut Partition> {
        self.partitions.get_mut(partition).filter(|state| state.epoch == epoch)
    }

    fn next_epoch(&mut self) -> PositionEpoch {
        self.last_epoch += 1;
        PositionEpoch(self.last_epoch)
    }

    fn first_state(&self, partition: &TopicPartition) -> State {
        match (self.has_group, self.policy.target()) {
            (true, _) => State::NeedsCommitted { is_requested: false },
            (false, Some(to)) => State::NeedsReset {
                to,
                is_requested: false,
            },
            (false, None) => State::Stuck(FetchError::NoOffset {
                partition: partition.clone(),
            }),
        }
    }
}

//! The application of a member: it polls, handles events, and commits.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{
    TopicPartition,
    member::{CommitMode, Leave, MemberError, MemberEvent, Membership, OffsetAndMetadata, OffsetEvent},
};

use milena_wire::errors::ErrorCode;

use super::{MemberSettings, Process};
use crate::clients::Io;

/// The time between two polls; sometimes long, and now and then too long.
const POLL_MS: u64 = 1_200;
const SLOW_POLL_MS: u64 = 3_000;
const STUCK_POLL_MS: u64 = 15_000;
/// The timeout of fetches of committed offsets.
const FETCH_MS: i64 = 5_000;

/// An event that the application handles now.
#[derive(Debug)]
pub(super) struct Callback {
    ends_at: i64,
    event: MemberEvent,
}

impl Callback {
    pub(super) fn ends_at(&self) -> i64 {
        self.ends_at
    }
}

impl Process {
    /// Lets the application go on: with its event, or with its next poll.
    pub(super) fn work(&mut self, settings: &MemberSettings, io: &mut Io<'_>) -> Result<(), MemberError> {
        let now = io.now();
        if let Some(callback) = self.busy.take_if(|callback| callback.ends_at <= now) {
            self.callback_ended(settings, io, callback.event);
            // It is still inside poll.
            self.polls_at = now;
        }
        if self.busy.is_some() || now < self.polls_at {
            return Ok(());
        }
        self.member.handle_poll(now);
        if settings.enforces_at.is_some_and(|at| now >= at) && !self.has_enforced {
            self.has_enforced = true;
            self.member.enforce_rebalance("the simulation wants one");
        }
        while self.busy.is_none()
            && let Some(event) = self.member.poll_event()
        {
            self.handle_event(settings, io, event)?;
        }
        if self.busy.is_none() {
            self.read_and_commit(io);
            self.polls_at = self.next_poll(io);
        }
        Ok(())
    }

    fn next_poll(&self, io: &mut Io<'_>) -> i64 {
        let slow = if io.network.lost == 0 { 0 } else { io.random.below(100) };
        io.soon(match slow {
            98.. => STUCK_POLL_MS,
            90.. => SLOW_POLL_MS,
            _ => POLL_MS,
        })
    }

    /// Begins an event. Short ones end at once.
    fn handle_event(
        &mut self,
        settings: &MemberSettings,
        io: &mut Io<'_>,
        event: MemberEvent,
    ) -> Result<(), MemberError> {
        io.note(|| format!("gets {event:?} as {:?}", self.member.membership()));
        match &event {
            MemberEvent::Revoked(partitions) => self.handle_revoked(settings, io, partitions),
            MemberEvent::Lost(partitions) => {
                let result = io.checks.listeners.lost(io.id, partitions, &self.member.membership());
                io.checks.demand(result);
                self.drop_all(settings, io, partitions);
            }
            MemberEvent::Assigned { added, all } => {
                let result = io.checks.listeners.assigned(io.id, added, all);
                io.checks.demand(result);
                self.check_given(settings, io, all);
            }
            MemberEvent::Fatal(error) => return Err(error.clone()),
            MemberEvent::Error(error) => {
                io.checks.fail(format!("client {} got an error: {error}", io.id));
            }
        }
        let now = io.now();
        let ends_at = if io.random.below(3) == 0 {
            io.soon(settings.callback_ms_max)
        } else {
            now
        };
        if ends_at > now {
            self.busy = Some(Callback { ends_at, event });
        } else {
            self.callback_ended(settings, io, event);
        }
        Ok(())
    }

    /// Revoked partitions are no longer read, and committed once more: that must still be possible.
    fn handle_revoked(&mut self, settings: &MemberSettings, io: &mut Io<'_>, partitions: &[TopicPartition]) {
        let is_forgotten = settings.forgets_revoked && io.random.below(3) == 0;
        if !is_forgotten {
            let result = io
                .checks
                .listeners
                .revoked(io.id, partitions, &self.member.membership());
            io.checks.demand(result);
        }
        let going: BTreeSet<TopicPartition> = partitions
            .iter()
            .filter(|topic_partition| self.reads.contains(*topic_partition))
            .cloned()
            .collect();
        self.reads.retain(|topic_partition| !going.contains(topic_partition));
        let deadline_ms = io.now() + 1_000;
        self.commit(io, &going, CommitMode::Sync { deadline_ms });
    }

    fn callback_ended(&mut self, settings: &MemberSettings, io: &mut Io<'_>, event: MemberEvent) {
        let now = io.now();
        match event {
            MemberEvent::Revoked(partitions) => {
                for topic_partition in &partitions {
                    io.checks.owners.release(io.id, &settings.group, topic_partition);
                }
                self.offsets.handle_released(&partitions);
                self.member.handle_event_done(now);
            }
            MemberEvent::Assigned { added, all } => {
                self.member.handle_event_done(now);
                self.reads = all.into_iter().collect();
                let result = io.checks.listeners.reads(io.id, &self.reads);
                io.checks.demand(result);
                self.proof.extend_claims(settings, io, &self.reads);
                self.fetch(now, added.into_iter().collect());
            }
            _ => self.member.handle_event_done(now),
        }
    }

    fn drop_all(&mut self, settings: &MemberSettings, io: &mut Io<'_>, partitions: &[TopicPartition]) {
        for topic_partition in partitions {
            io.checks.owners.release(io.id, &settings.group, topic_partition);
        }
        self.offsets.handle_released(partitions);
        self.reads.clear();
    }

    /// In one generation of the classic protocol no other member gets the same partition.
    fn check_given(&self, settings: &MemberSettings, io: &mut Io<'_>, all: &[TopicPartition]) {
        let Membership::Member {
            identity,
            is_epoch: false,
        } = self.member.membership()
        else {
            return;
        };
        let who = settings.instance.clone().unwrap_or(identity.member_id);
        for topic_partition in all {
            let result = io
                .checks
                .owners
                .given(&settings.group, identity.generation, &who, topic_partition);
            io.checks.demand(result);
        }
    }

    fn read_and_commit(&mut self, io: &mut Io<'_>) {
        let result = io.checks.listeners.reads(io.id, &self.reads);
        io.checks.demand(result);
        if self.reads.is_empty() {
            return;
        }
        let reads = self.reads.clone();
        match io.random.below(8) {
            0..2 => self.commit(io, &reads, CommitMode::Async),
            2 => {
                let deadline_ms = io.now() + 4_000;
                self.commit(io, &reads, CommitMode::Sync { deadline_ms });
            }
            3 => self.fetch(io.now(), reads),
            _ => {}
        }
    }

    fn commit(&mut self, io: &mut Io<'_>, partitions: &BTreeSet<TopicPartition>, mode: CommitMode) {
        let values: BTreeMap<TopicPartition, i64> = partitions
            .iter()
            .map(|topic_partition| (topic_partition.clone(), io.checks.offsets.next_value()))
            .collect();
        let offsets = values.iter().map(|(topic_partition, value)| {
            let offset = OffsetAndMetadata {
                offset: *value,
                leader_epoch: None,
                metadata: "".into(),
            };
            (topic_partition.clone(), offset)
        });
        let id = self.offsets.commit(offsets.collect(), mode);
        self.commits.insert(id, values);
    }

    fn fetch(&mut self, now: i64, partitions: BTreeSet<TopicPartition>) {
        let id = self.offsets.fetch(partitions.clone(), now + FETCH_MS);
        self.fetches.insert(id, partitions);
    }

    /// Results of commits and fetches. The checks have seen each response; here it is checked that there is a result.
    pub(super) fn handle_offset_events(&mut self, io: &mut Io<'_>) {
        while let Some(event) = self.offsets.poll_event() {
            match event {
                OffsetEvent::MemberRefused { sent, error } => {
                    io.note(|| format!("is refused as {sent:?}: {error}"));
                    if error != ErrorCode::RebalanceInProgress && self.member.identity() == sent {
                        self.is_out(io);
                    }
                    self.member.handle_commit_refused(io.now(), &sent, error);
                }
                OffsetEvent::Committed { id, results } => {
                    let values = self.commits.remove(&id);
                    let is_complete = values.is_some_and(|values| values.keys().eq(results.keys()));
                    if !is_complete {
                        io.checks.fail(format!(
                            "client {} did not get one result of {id:?} for each partition",
                            io.id
                        ));
                    }
                }
                OffsetEvent::Fetched { id, results } => {
                    let partitions = self.fetches.remove(&id);
                    if partitions.is_none_or(|partitions| partitions.iter().ne(results.keys())) {
                        let client = io.id;
                        io.checks.fail(format!(
                            "client {client} did not get one result of {id:?} for each partition"
                        ));
                    }
                }
            }
        }
    }

    /// Unsubscribes: the application sees its partitions revoked, and the member leaves.
    pub(super) fn leave(&mut self, settings: &MemberSettings, io: &mut Io<'_>, how: Leave) {
        let now = io.now();
        self.member.handle_timeout(now);
        self.offsets.handle_timeout(now);
        if let Some(callback) = self.busy.take() {
            self.callback_ended(settings, io, callback.event);
        }
        self.member.leave(now, how);
        while let Some(event) = self.member.poll_event() {
            io.note(|| format!("gets {event:?} on leaving"));
            match &event {
                MemberEvent::Revoked(partitions) => self.handle_revoked(settings, io, partitions),
                MemberEvent::Lost(partitions) => self.drop_all(settings, io, partitions),
                _ => {}
            }
            self.send(settings, io);
            self.callback_ended(settings, io, event);
        }
        self.send(settings, io);
        if !self.member.owned().is_empty() {
            io.checks
                .fail(format!("client {} left with {:?}", io.id, self.member.owned()));
        }
    }
}

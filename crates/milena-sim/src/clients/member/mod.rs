//! A process with a group member: the real machines of the client, with an application around them that polls, commits,
//! is slow, pauses and ends.

mod application;
mod calls;
mod proof;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition, TopicsImage,
    assign::{TopicLayout, builtin},
    member::{
        CommitId, FetchId, GroupProtocol, Leave, Member, MemberConfig, MemberError, MemberMetadata, OffsetCalls,
        OffsetConfig, Subscription,
    },
};
use regex::Regex;

use super::{CallId, Client, Io, Reply};
use crate::checks;

use application::Callback;
use calls::InFlight;
use proof::Proof;

const REQUEST_TIMEOUT_MS: i64 = 3_000;
const HEARTBEAT_INTERVAL_MS: i32 = 1_500;
/// The age at which metadata is refreshed.
const METADATA_MS: u64 = 2_000;

/// The settings of a process.
#[derive(Debug, Clone)]
pub(crate) struct MemberSettings {
    pub(crate) group: ByteString,
    pub(crate) instance: Option<ByteString>,
    pub(crate) topics: BTreeSet<ByteString>,
    /// In topic_partition of topics.
    pub(crate) pattern: Option<ByteString>,
    pub(crate) rebalance_ms: i32,
    pub(crate) protocol: ProtocolSettings,
    /// The longest time that the application handles an event.
    pub(crate) callback_ms_max: u64,
    /// Leaves for good at this time.
    pub(crate) leaves_at: Option<i64>,
    /// Requests a rebalance at this time.
    pub(crate) enforces_at: Option<i64>,
    /// One of the bugs: the application does not always see revocations.
    pub(crate) forgets_revoked: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum ProtocolSettings {
    Classic {
        session_ms: i32,
        assignors: Vec<&'static str>,
    },
    Consumer {
        assignor: Option<ByteString>,
        /// The configuration of the broker.
        session_ms: i32,
    },
}

#[derive(Debug)]
pub(crate) struct GroupMember {
    settings: MemberSettings,
    process: Option<Process>,
    /// The start of the next process.
    starts_at: i64,
    gone: bool,
    /// The next wake-up that was requested.
    wakes_at: i64,
}

/// A running process.
#[derive(Debug)]
struct Process {
    member: Member,
    offsets: OffsetCalls,
    calls: BTreeMap<CallId, InFlight>,
    proof: Proof,
    /// The topics as this process last saw them, and the time of the next refresh.
    topics: Arc<TopicsImage>,
    looks_at: i64,
    /// The time of the application's next poll, unless it handles an event.
    polls_at: i64,
    busy: Option<Callback>,
    /// The partitions that the application reads.
    reads: BTreeSet<TopicPartition>,
    commits: BTreeMap<CommitId, BTreeMap<TopicPartition, i64>>,
    fetches: BTreeMap<FetchId, BTreeSet<TopicPartition>>,
    has_enforced: bool,
}

impl GroupMember {
    pub(crate) fn new(settings: MemberSettings) -> Self {
        Self {
            settings,
            process: None,
            starts_at: i64::MIN,
            gone: false,
            wakes_at: i64::MAX,
        }
    }

    fn start(&mut self, io: &mut Io<'_>) {
        let settings = &self.settings;
        if let Some(instance) = &settings.instance {
            io.checks.fencing.started(io.id, &settings.group, instance);
        }
        let subscription = checks::Subscription {
            group: settings.group.clone(),
            topics: settings.topics.iter().cloned().collect(),
            pattern: settings.pattern.clone(),
        };
        io.checks.members.insert(io.id, subscription);
        match Process::new(settings, io) {
            Ok(process) => self.process = Some(process),
            Err(error) => io.checks.fail(error.to_string()),
        }
    }

    /// The process ends, in order or not.
    fn stop(&mut self, io: &mut Io<'_>) {
        self.process = None;
        io.checks.owners.release_all(io.id);
        io.checks.listeners.ended(io.id);
        io.checks.members.remove(&io.id);
        if let Some(instance) = &self.settings.instance {
            io.checks.fencing.ended(io.id, &self.settings.group, instance);
        }
    }

    fn restart_after(&mut self, io: &mut Io<'_>, max_ms: u64) {
        self.stop(io);
        self.starts_at = io.soon(max_ms);
    }

    /// The member is ended. The supervisor of processes starts another, unless one runs already.
    fn failed(&mut self, io: &mut Io<'_>, error: &MemberError) {
        match error {
            MemberError::FencedInstance { instance_id } => {
                self.gone = io
                    .checks
                    .fencing
                    .runs_elsewhere(io.id, &self.settings.group, instance_id);
                self.restart_after(io, 2_000);
            }
            MemberError::UnreleasedInstance { .. } => self.restart_after(io, 2_000),
            error => io.checks.fail(format!("client {} ends: {error}", io.id)),
        }
    }

    /// Unsubscribes and ends, without waiting for responses.
    fn leave(&mut self, io: &mut Io<'_>, how: Leave) {
        if let Some(process) = &mut self.process {
            process.leave(&self.settings, io, how);
        }
        self.stop(io);
    }

    /// Lets the process do everything that is due, and requests its next wake-up.
    fn go_on(&mut self, io: &mut Io<'_>) {
        if self.gone {
            return;
        }
        let now = io.now();
        if self.process.is_none() && now >= self.starts_at {
            self.start(io);
        }
        if self.process.is_some() && self.settings.leaves_at.is_some_and(|leaves_at| now >= leaves_at) {
            self.leave(io, Leave::Leave);
            self.gone = true;
            return;
        }
        let wakes_at = match &mut self.process {
            Some(process) => {
                if let Err(error) = process.go_on(&self.settings, io) {
                    self.failed(io, &error);
                }
                let starts_at = self.starts_at;
                self.process.as_ref().map_or(starts_at, |process| process.wakes_at(now))
            }
            None => self.starts_at,
        };
        if wakes_at < self.wakes_at && !self.gone {
            self.wakes_at = wakes_at;
            io.wake_at(wakes_at);
        }
    }
}

impl Client for GroupMember {
    fn wake(&mut self, io: &mut Io<'_>) {
        if io.now() >= self.wakes_at {
            self.wakes_at = i64::MAX;
        }
        self.go_on(io);
    }

    fn handle_reply(&mut self, io: &mut Io<'_>, call: CallId, reply: Reply) {
        if let Some(process) = &mut self.process {
            process.handle_reply(&self.settings, io, call, reply);
        }
        self.go_on(io);
    }

    fn handle_no_reply(&mut self, io: &mut Io<'_>, call: CallId) {
        if let Some(process) = &mut self.process {
            process.handle_no_reply(io, call);
        }
        self.go_on(io);
    }

    fn crash(&mut self, io: &mut Io<'_>) {
        if self.process.is_none() || self.gone {
            return;
        }
        if io.random.below(3) == 0 {
            let how = [Leave::Default, Leave::Remain];
            let how = how[io.random.below(2) as usize];
            self.leave(io, how);
        }
        self.restart_after(io, 15_000);
        self.go_on(io);
    }
}

impl Process {
    fn new(settings: &MemberSettings, io: &mut Io<'_>) -> Result<Self, String> {
        let protocol = match &settings.protocol {
            ProtocolSettings::Classic { session_ms, assignors } => GroupProtocol::Classic {
                session_timeout_ms: *session_ms,
                heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
                assignors: assignors.iter().filter_map(|name| builtin(name)).collect(),
            },
            ProtocolSettings::Consumer { assignor, .. } => GroupProtocol::Consumer {
                remote_assignor: assignor.clone(),
            },
        };
        let config = MemberConfig {
            group_id: settings.group.clone(),
            instance_id: settings.instance.clone(),
            rack: None,
            rebalance_timeout_ms: settings.rebalance_ms,
            request_timeout_ms: REQUEST_TIMEOUT_MS,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            protocol,
        };
        let offsets = OffsetConfig {
            group_id: settings.group.clone(),
            request_timeout_ms: REQUEST_TIMEOUT_MS,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
        };
        let mut process = Self {
            member: Member::new(config, io.random.next_u64()).map_err(|error| error.to_string())?,
            offsets: OffsetCalls::new(offsets, io.random.next_u64()),
            calls: BTreeMap::new(),
            proof: Proof::default(),
            topics: Arc::default(),
            looks_at: i64::MIN,
            polls_at: io.now(),
            busy: None,
            reads: BTreeSet::new(),
            commits: BTreeMap::new(),
            fetches: BTreeMap::new(),
            has_enforced: false,
        };
        process.look(settings, io);
        process.subscribe(settings, io.now());
        Ok(process)
    }

    /// Everything that is due, until nothing is.
    fn go_on(&mut self, settings: &MemberSettings, io: &mut Io<'_>) -> Result<(), MemberError> {
        let now = io.now();
        if now >= self.looks_at || (self.member.metadata_needed().is_some() && io.random.below(2) == 0) {
            self.look(settings, io);
        }
        self.member.handle_timeout(now);
        self.offsets.handle_timeout(now);
        self.send(settings, io);
        self.work(settings, io)?;
        self.send(settings, io);
        self.handle_offset_events(io);
        self.send(settings, io);
        Ok(())
    }

    fn wakes_at(&self, now: i64) -> i64 {
        let application = self.busy.as_ref().map_or(self.polls_at, Callback::ends_at);
        let machines = [self.member.poll_timeout(), self.offsets.poll_timeout()];
        let next = machines.into_iter().flatten().min().unwrap_or(i64::MAX);
        next.min(application).min(self.looks_at).max(now + 1)
    }

    /// Refreshes the metadata: the process sees the topics as they are now.
    fn look(&mut self, settings: &MemberSettings, io: &mut Io<'_>) {
        self.looks_at = io.soon(METADATA_MS);
        self.topics = io.topics.clone();
        let mut metadata = MemberMetadata::default();
        let wanted = self.member.group_topics().into_iter().flatten().chain(&settings.topics);
        for name in wanted {
            metadata.insert(name.clone(), None, TopicLayout::default());
        }
        for (name, topic) in io.topics.iter() {
            let layout = TopicLayout::without_racks(topic.partitions as usize);
            metadata.insert(name.clone(), Some(topic.id), layout);
        }
        let metadata = Arc::new(metadata);
        self.member.handle_metadata(io.now(), metadata.clone());
        self.offsets.handle_metadata(metadata);
        if matches!(settings.protocol, ProtocolSettings::Classic { .. }) && settings.pattern.is_some() {
            self.subscribe(settings, io.now());
        }
    }

    fn subscribe(&mut self, settings: &MemberSettings, now: i64) {
        let subscription = match (&settings.pattern, &settings.protocol) {
            (None, _) => Subscription::Topics(settings.topics.clone()),
            (Some(pattern), ProtocolSettings::Consumer { .. }) => Subscription::BrokerPattern(pattern.clone()),
            (Some(pattern), ProtocolSettings::Classic { .. }) => {
                let Ok(pattern) = Regex::new(&format!("^(?:{pattern})$")) else {
                    return;
                };
                let matching = self.topics.iter().filter(|(name, _)| pattern.is_match(name));
                let topics = matching.map(|(name, _)| name.clone()).collect();
                let filter = pattern.into();
                Subscription::Matching { topics, filter }
            }
        };
        self.member.subscribe(now, subscription);
    }
}

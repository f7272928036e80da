//! The driver of the group coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::{
    GroupCoordinator, Ticket, TopicPartition, TopicsImage,
    group::{GroupContext, GroupEffects, GroupRecord, GroupReply, GroupRequest, OffsetKey, VisibleTopics},
    transaction::ProducerEpoch,
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        HeartbeatResponse, OffsetCommitRequest, OffsetCommitValue, consumer_group_heartbeat_request::TopicPartitions,
        consumer_group_heartbeat_response::Assignment, offset_fetch_request::OffsetFetchRequestGroup,
    },
};

use super::{Broker, BrokerSettings, Deferred, LogId};
use crate::{
    Mutation,
    clients::{ClientId, Reply},
    journal::{Entry, Journal},
    simulation::World,
};

#[derive(Debug)]
pub(super) struct Groups {
    machine: GroupCoordinator,
    settings: BrokerSettings,
    /// The state of the machine when its process ended.
    picture: Option<Picture>,
    /// For one of the bugs: the last assignment of each member.
    told: BTreeMap<ByteString, Assignment>,
}

type Picture = Vec<GroupReply>;

impl Groups {
    pub(super) fn new(settings: &BrokerSettings, world: &World, seed: u64) -> Self {
        Self {
            machine: GroupCoordinator::new(settings.group_config.clone(), world.topics.clone(), seed),
            settings: settings.clone(),
            picture: None,
            told: BTreeMap::new(),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<i64> {
        self.machine.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: i64) -> GroupEffects {
        self.machine.handle_timeout(now)
    }

    pub(super) fn set_topics(&mut self, now: i64, topics: Arc<TopicsImage>) -> GroupEffects {
        self.machine.set_topics(now, topics)
    }

    pub(super) fn replay_marker(&mut self, producer: ProducerEpoch, committed: bool) {
        self.machine.replay_marker(producer, committed);
    }

    /// A machine that was loaded from the log.
    fn replayed(&self, world: &World, journal: &Journal, seed: u64) -> Result<GroupCoordinator, String> {
        let mut machine = Self::new(&self.settings, world, seed).machine;
        let mutation = self.settings.mutation;
        for entry in journal.entries() {
            match entry {
                Entry::Records { producer: Some(_), .. } if mutation == Some(Mutation::LosePendingOffsets) => {}
                Entry::Records { producer, records } => {
                    for record in records {
                        let outcome = machine.replay_stored(*producer, &record.key, record.value.as_ref());
                        outcome.map_err(|error| format!("a group record cannot be read back: {error}"))?;
                    }
                }
                Entry::Marker {
                    producer, committed, ..
                } => machine.replay_marker(*producer, *committed),
                Entry::Data { .. } => return Err("the log of the groups has a producer's data".to_owned()),
            }
        }
        Ok(machine)
    }

    pub(super) fn take_picture(&mut self, now: i64) {
        self.picture = Some(picture(&mut self.machine, now));
    }

    pub(super) fn forget_picture(&mut self) {
        self.picture = None;
    }

    /// Compares the state with that of a machine loaded from the log.
    pub(super) fn check_picture(&mut self, world: &mut World, journal: &Journal, now: i64) {
        let Some(before) = self.picture.take() else { return };
        match self.replayed(world, journal, 0) {
            Ok(mut machine) => compare(world, &before, &picture(&mut machine, now)),
            Err(what) => world.checks.fail(what),
        }
    }

    /// The reply of the machine, or of one of the bugs.
    fn handle(&mut self, context: &GroupContext, mut request: GroupRequest) -> GroupEffects {
        match (self.settings.mutation, &mut request) {
            (Some(Mutation::ForgetHeartbeats), GroupRequest::Heartbeat(_)) if !context.ticket.0.is_multiple_of(4) => {
                let reply = GroupReply::Heartbeat(HeartbeatResponse::default());
                return GroupEffects {
                    replies: vec![(context.ticket, reply)],
                    ..Default::default()
                };
            }
            (Some(Mutation::ReleaseBeforeRevoked), GroupRequest::ConsumerHeartbeat(heartbeat)) => {
                if let Some(told) = self
                    .told
                    .get(&heartbeat.member_id)
                    .filter(|_| heartbeat.member_epoch > 0)
                {
                    heartbeat.topic_partitions = Some(owned_as_assigned(told));
                }
            }
            _ => {}
        }
        let mut effects = self.machine.handle_request(context, request.clone());
        match self.settings.mutation {
            Some(Mutation::AcceptStaleCommits) => self.accept_commit(context, &request, &mut effects),
            Some(Mutation::OldStaticMembersSucceed) => forgive_static_members(&mut effects),
            Some(Mutation::ReleaseBeforeRevoked) => self.note_assignment(&request, &effects),
            Some(Mutation::LoseLastRecord) if effects.records.len() > 1 => {
                effects.records.pop();
            }
            _ => {}
        }
        effects
    }

    fn note_assignment(&mut self, request: &GroupRequest, effects: &GroupEffects) {
        let GroupRequest::ConsumerHeartbeat(request) = request else {
            return;
        };
        for (_, reply) in &effects.replies {
            if let GroupReply::ConsumerHeartbeat(response) = reply
                && let Some(assignment) = &response.assignment
            {
                self.told.insert(request.member_id.clone(), assignment.clone());
            }
        }
    }

    fn accept_commit(&mut self, context: &GroupContext, request: &GroupRequest, effects: &mut GroupEffects) {
        let GroupRequest::OffsetCommit(request) = request else {
            return;
        };
        for (_, reply) in &mut effects.replies {
            let GroupReply::OffsetCommit(response) = reply else {
                continue;
            };
            let codes = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            let mut refused = codes.filter(|partition| partition.error_code != 0).peekable();
            if refused.peek().is_some() {
                refused.for_each(|partition| partition.error_code = 0);
                for record in offset_records(context.now_ms, request) {
                    self.machine.replay(None, record.clone());
                    effects.records.push(record);
                }
            }
        }
    }
}

impl Broker {
    pub(super) fn load_groups(&mut self, world: &mut World) {
        let now = self.now(world);
        let journal = self.logs.entry(LogId::Groups).or_default();
        self.groups.check_picture(world, journal, now);
        // A new seed each time: otherwise new members would get the ids of old ones.
        let seed = world.random.next_u64();
        match self.groups.replayed(world, journal, seed) {
            Ok(machine) => self.groups.machine = machine,
            Err(what) => return world.checks.fail(what),
        }
        let effects = self.groups.machine.start(now);
        self.apply_group_effects(world, effects);
    }

    pub(super) fn group_request(
        &mut self,
        world: &mut World,
        from: ClientId,
        (ticket, version): (Ticket, i16),
        request: GroupRequest,
    ) {
        let context = GroupContext {
            now_ms: self.now(world),
            ticket,
            version,
            client_id: format!("client-{from}").into(),
            client_host: "/127.0.0.1".into(),
            visible_topics: VisibleTopics::default(),
        };
        let group = match &request {
            GroupRequest::ConsumerHeartbeat(request) => Some(request.group_id.clone()),
            _ => None,
        };
        let effects = self.groups.handle(&context, request);
        self.apply_group_effects(world, effects);
        if let Some(group) = group.filter(|_| world.random.below(4) == 0) {
            self.check_assignment(world, group);
        }
    }

    pub(super) fn apply_group_effects(&mut self, world: &mut World, effects: GroupEffects) {
        let GroupEffects {
            records,
            producer,
            replies,
        } = effects;
        if !records.is_empty() {
            let stored: Result<Vec<_>, _> = records.iter().map(GroupRecord::encode).collect();
            let records = match stored {
                Ok(records) => records,
                Err(error) => return world.checks.fail(format!("a group record cannot be written: {error}")),
            };
            let entry = Entry::Records { producer, records };
            if !self.append(world, &LogId::Groups, entry.clone()) {
                return self.rebuild_groups(world);
            }
            self.note_offsets(&entry);
        }
        for (ticket, reply) in replies {
            if let GroupReply::Join(response) = &reply
                && response.error_code == ErrorCode::None.code()
            {
                world.checks.owners.begun(world.queue.now(), response.generation_id);
            }
            self.defer(&LogId::Groups, Deferred::Reply(ticket, Reply::Group(reply)));
        }
    }

    /// The machine is ahead of its log: only the log counts. Waiting requests get no response.
    fn rebuild_groups(&mut self, world: &mut World) {
        let waiting = self.deferred.iter().filter_map(|(_, _, effect)| match effect {
            Deferred::Reply(ticket, _) | Deferred::Write(ticket, _) => Some(*ticket),
            Deferred::Markers(_) | Deferred::MarkerDurable(_) => None,
        });
        let waiting: BTreeSet<Ticket> = waiting.collect();
        self.tickets
            .retain(|ticket, (_, _, is_group)| !*is_group || waiting.contains(ticket));
        self.groups.forget_picture();
        self.load_groups(world);
    }

    /// The committed offsets of a group at the end.
    pub(crate) fn committed_offsets(&mut self, world: &World, group_id: &'static str) -> BTreeMap<TopicPartition, i64> {
        let group = OffsetFetchRequestGroup {
            group_id: group_id.into(),
            member_epoch: -1,
            topics: None,
            ..Default::default()
        };
        let request = GroupRequest::OffsetFetch {
            group,
            require_stable: false,
        };
        let effects = self.groups.machine.handle_request(&observer(self.now(world)), request);
        let mut offsets = BTreeMap::new();
        for (_, reply) in effects.replies {
            let GroupReply::OffsetFetch(group) = reply else {
                continue;
            };
            for topic in group.topics {
                offsets.extend(topic.partitions.into_iter().map(|partition| {
                    let topic_partition = TopicPartition {
                        topic: topic.name.clone(),
                        partition: partition.partition_index,
                    };
                    (topic_partition, partition.committed_offset)
                }));
            }
        }
        offsets
    }

    /// In the coordinator's state, too, a partition has one owner.
    fn check_assignment(&mut self, world: &mut World, group_id: ByteString) {
        let request = GroupRequest::ConsumerDescribe { group_id };
        let effects = self.groups.machine.handle_request(&observer(self.now(world)), request);
        for (_, reply) in effects.replies {
            let GroupReply::ConsumerDescribe(group) = reply else {
                continue;
            };
            let mut owners: BTreeMap<(ByteString, i32), &ByteString> = BTreeMap::new();
            for member in &group.members {
                for topic in &member.assignment.topic_partitions {
                    for partition in &topic.partitions {
                        let topic_partition = (topic.topic_name.clone(), *partition);
                        if let Some(other) = owners.insert(topic_partition, &member.member_id) {
                            let (name, other, member) = (&topic.topic_name, other.clone(), &member.member_id);
                            world.checks.fail(format!(
                                "the coordinator assigns {name}-{partition} to {other} and to {member}"
                            ));
                        }
                    }
                }
            }
        }
    }
}

/// The context of a client that only describes.
fn observer(now_ms: i64) -> GroupContext {
    GroupContext {
        now_ms,
        ticket: Ticket(0),
        version: 6,
        client_id: "observer".into(),
        client_host: "/127.0.0.1".into(),
        visible_topics: VisibleTopics::default(),
    }
}

/// The state of groups that a machine must have again after a start.
fn picture(machine: &mut GroupCoordinator, now: i64) -> Picture {
    let context = observer(now);
    let (states, types) = (vec![], vec![]);
    let mut ask = |request| {
        machine
            .handle_request(&context, request)
            .replies
            .into_iter()
            .map(|(_, reply)| reply)
    };
    let listed: Vec<GroupReply> = ask(GroupRequest::List { states, types }).collect();
    let mut groups: Vec<ByteString> = listed
        .iter()
        .flat_map(|reply| match reply {
            GroupReply::List(groups) => groups.iter().map(|group| group.group_id.clone()).collect(),
            _ => vec![],
        })
        .collect();
    groups.sort();
    let mut picture = vec![];
    for group_id in groups {
        let describe = GroupRequest::Describe {
            group_id: group_id.clone(),
        };
        // A rebalance is not durable: the group falls back to the state before it.
        let is_durable = |reply: &GroupReply| match reply {
            GroupReply::Describe(group) => group.group_state == "Stable",
            _ => false,
        };
        picture.extend(ask(describe).filter(is_durable));
        picture.extend(ask(GroupRequest::ConsumerDescribe {
            group_id: group_id.clone(),
        }));
        for require_stable in [false, true] {
            let group = OffsetFetchRequestGroup {
                group_id: group_id.clone(),
                member_epoch: -1,
                topics: None,
                ..Default::default()
            };
            picture.extend(ask(GroupRequest::OffsetFetch { group, require_stable }));
        }
    }
    picture
}

fn compare(world: &mut World, before: &Picture, after: &Picture) {
    let missing = before.iter().find(|reply| !after.contains(reply));
    if let Some(reply) = missing {
        let about = group_of(reply);
        let instead: Vec<&GroupReply> = after.iter().filter(|other| group_of(other) == about).collect();
        world.checks.fail(format!(
            "before the end the coordinator replied {reply:?}, its log says {instead:?}"
        ));
    }
}

fn group_of(reply: &GroupReply) -> (u8, Option<&ByteString>) {
    match reply {
        GroupReply::Describe(group) => (0, Some(&group.group_id)),
        GroupReply::ConsumerDescribe(group) => (1, Some(&group.group_id)),
        GroupReply::OffsetFetch(group) => (2, Some(&group.group_id)),
        _ => (3, None),
    }
}

fn owned_as_assigned(told: &Assignment) -> Vec<TopicPartitions> {
    let topics = told.topic_partitions.iter().map(|topic| TopicPartitions {
        topic_id: topic.topic_id,
        partitions: topic.partitions.clone(),
        ..Default::default()
    });
    topics.collect()
}

fn forgive_static_members(effects: &mut GroupEffects) {
    let fenced = ErrorCode::FencedInstanceId.code();
    for (_, reply) in &mut effects.replies {
        if let GroupReply::Heartbeat(response) = reply
            && response.error_code == fenced
        {
            response.error_code = ErrorCode::None.code();
        }
    }
}

fn offset_records(now_ms: i64, request: &OffsetCommitRequest) -> Vec<GroupRecord> {
    let records = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| GroupRecord::Offset {
            key: OffsetKey {
                group_id: request.group_id.clone(),
                topic: topic.name.clone(),
                partition: partition.partition_index,
            },
            value: Some(OffsetCommitValue {
                offset: partition.committed_offset,
                commit_timestamp: now_ms,
                ..Default::default()
            }),
        })
    });
    records.collect()
}

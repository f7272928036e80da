//! Check of fencing: a process that was replaced has no success any more.

use std::collections::BTreeMap;

use bytestring::ByteString;

use crate::{clients::ClientId, simulation::START_MS};

/// The processes that share a `group.instance.id`. The last that joined is the member; of two that joined at the same
/// time, it is not known which.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    instances: BTreeMap<(ByteString, ByteString), Instance>,
}

/// The running processes.
type Instance = BTreeMap<ClientId, Process>;

#[derive(Debug, Clone, Copy, Default)]
struct Process {
    /// It requested to take the topic_partition of the member.
    takes_over: bool,
    /// The times when it requested to join, and when it got the response.
    joined: Option<Joined>,
}

#[derive(Debug, Clone, Copy)]
struct Joined {
    sent_at: i64,
    known_at: i64,
}

impl Fencing {
    pub(crate) fn started(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).insert(client, Process::default());
    }

    pub(crate) fn ended(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).remove(&client);
    }

    pub(crate) fn runs_elsewhere(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) -> bool {
        self.entry(group, instance).keys().any(|other| *other != client)
    }

    /// Returns the other processes with this instance id: from now on they may be replaced.
    pub(crate) fn takes_over(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) -> Vec<ClientId> {
        let entry = self.entry(group, instance);
        entry.entry(client).or_default().takes_over = true;
        entry.keys().copied().filter(|other| *other != client).collect()
    }

    /// Returns the other processes with this instance id.
    pub(crate) fn joined(
        &mut self,
        (sent_at, known_at): (i64, i64),
        client: ClientId,
        group: &ByteString,
        instance: &ByteString,
    ) -> Vec<ClientId> {
        let entry = self.entry(group, instance);
        entry.entry(client).or_default().joined = Some(Joined { sent_at, known_at });
        entry.keys().copied().filter(|other| *other != client).collect()
    }

    /// Whether another may be the member by now.
    pub(crate) fn may_be_replaced(
        &mut self,
        client: ClientId,
        group: &ByteString,
        instance: Option<&ByteString>,
    ) -> bool {
        let Some(instance) = instance else { return false };
        let entry = self.entry(group, instance);
        let ours = entry.get(&client).and_then(|process| process.joined);
        let is_newer = |other: Joined| ours.is_none_or(|ours| other.known_at > ours.sent_at);
        let mut others = entry.iter().filter(|(other, _)| **other != client);
        others.any(|(_, process)| process.takes_over || process.joined.is_some_and(is_newer))
    }

    /// A request that was sent at `sent_at` has succeeded.
    pub(crate) fn check(
        &mut self,
        client: ClientId,
        group: &ByteString,
        instance: Option<&ByteString>,
        sent_at: i64,
    ) -> Result<(), String> {
        let Some(instance) = instance else { return Ok(()) };
        let entry = self.entry(group, instance);
        let Some(ours) = entry.get(&client).and_then(|process| process.joined) else {
            return Ok(());
        };
        let others = entry.iter().filter(|(other, _)| **other != client);
        let mut others = others.filter_map(|(other, process)| Some((other, process.joined?)));
        match others.find(|(_, other)| other.sent_at > ours.known_at && other.known_at < sent_at) {
            Some((other, joined)) => Err(format!(
                "client {client} had success with a request sent at {} as {instance} of {group}, \
                 which is client {other} since {}",
                sent_at - START_MS,
                joined.known_at - START_MS
            )),
            None => Ok(()),
        }
    }

    fn entry(&mut self, group: &ByteString, instance: &ByteString) -> &mut Instance {
        self.instances.entry((group.clone(), instance.clone())).or_default()
    }
}

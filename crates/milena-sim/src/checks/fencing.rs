//! Whoever was replaced has no success any more.

use std::collections::BTreeMap;

use bytestring::ByteString;

use crate::{clients::ClientId, simulation::START_MS};

/// The processes that share a `group.instance.id`. The last that joined is the member; where two joined at the same
/// time, nobody can tell which.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    instances: BTreeMap<(ByteString, ByteString), Instance>,
}

/// The running processes, and when each asked to join and heard that it had.
type Instance = BTreeMap<ClientId, Option<Joined>>;

#[derive(Debug, Clone, Copy)]
struct Joined {
    sent_at: i64,
    known_at: i64,
}

impl Fencing {
    pub(crate) fn started(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).insert(client, None);
    }

    pub(crate) fn ended(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).remove(&client);
    }

    pub(crate) fn runs_elsewhere(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) -> bool {
        self.entry(group, instance).keys().any(|other| *other != client)
    }

    /// Gives who else runs with this instance id.
    pub(crate) fn joined(
        &mut self,
        (sent_at, known_at): (i64, i64),
        client: ClientId,
        group: &ByteString,
        instance: &ByteString,
    ) -> Vec<ClientId> {
        let entry = self.entry(group, instance);
        entry.insert(client, Some(Joined { sent_at, known_at }));
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
        let ours = entry.get(&client).copied().flatten();
        let others = entry.iter().filter(|(other, _)| **other != client);
        let mut others = others.filter_map(|(_, joined)| *joined);
        others.any(|other| ours.is_none_or(|ours| other.known_at > ours.sent_at))
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
        let Some(ours) = entry.get(&client).copied().flatten() else {
            return Ok(());
        };
        let others = entry.iter().filter(|(other, _)| **other != client);
        let mut others = others.filter_map(|(other, joined)| Some((other, (*joined)?)));
        match others.find(|(_, other)| other.sent_at > ours.known_at && other.known_at < sent_at) {
            Some((other, joined)) => Err(format!(
                "client {client} had success with what it sent at {} as {instance} of {group}, \
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

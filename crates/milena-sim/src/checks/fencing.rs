//! Whoever was replaced has no success any more.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;

use crate::clients::ClientId;

/// The processes that share a `group.instance.id`. The last that joined is the member.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    instances: BTreeMap<(ByteString, ByteString), Instance>,
}

#[derive(Debug, Default)]
struct Instance {
    running: BTreeSet<ClientId>,
    /// Who was told last that it is the member, and when.
    member: Option<(ClientId, i64)>,
}

impl Fencing {
    pub(crate) fn started(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).running.insert(client);
    }

    pub(crate) fn ended(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).running.remove(&client);
    }

    pub(crate) fn runs_elsewhere(&mut self, client: ClientId, group: &ByteString, instance: &ByteString) -> bool {
        let running = &self.entry(group, instance).running;
        running.iter().any(|other| *other != client)
    }

    pub(crate) fn joined(&mut self, now: i64, client: ClientId, group: &ByteString, instance: &ByteString) {
        self.entry(group, instance).member = Some((client, now));
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
        match self.entry(group, instance).member {
            Some((other, since)) if other != client && since < sent_at => Err(format!(
                "client {client} had success at {sent_at} as {instance} of {group}, which is client {other} since {since}"
            )),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, group: &ByteString, instance: &ByteString) -> &mut Instance {
        self.instances.entry((group.clone(), instance.clone())).or_default()
    }
}

//! Check of ownership: no partition belongs to two members at the same time.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::TopicPartition;

use crate::clients::ClientId;

/// Ownership as members believe in it. A belief is valid until the broker may have expired the member without its
/// knowledge; after that time it proves nothing.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    claims: BTreeMap<(ByteString, TopicPartition), BTreeMap<ClientId, Claim>>,
    /// The assignments of each generation of the classic protocol: this check needs no clock.
    generations: BTreeMap<(ByteString, i32), BTreeMap<TopicPartition, ByteString>>,
    /// The time of the first member of each generation. All members are in one group.
    began: BTreeMap<i32, i64>,
    /// Set if messages overtake each other. Then an old message can make a member seem to have revoked, as in Kafka.
    pub(crate) only_generations: bool,
    /// Set where a group may begin anew: one that changes its protocol while it is empty counts from 1 again.
    pub(crate) generations_repeat: bool,
    doubted_at: i64,
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    since: i64,
    until: i64,
}

impl Owners {
    /// Notes that a member was assigned `topic_partition` in `generation`. A static member counts by its instance.
    pub(crate) fn given(
        &mut self,
        group: &ByteString,
        generation: i32,
        member: &ByteString,
        topic_partition: &TopicPartition,
    ) -> Result<(), String> {
        if self.generations_repeat {
            return Ok(());
        }
        let given = self.generations.entry((group.clone(), generation)).or_default();
        let first = given.entry(topic_partition.clone()).or_insert_with(|| member.clone());
        if first == member {
            return Ok(());
        }
        Err(format!(
            "{first} and {member} were both assigned {topic_partition} in generation {generation} of {group}"
        ))
    }

    /// Notes a member of `generation`.
    pub(crate) fn begun(&mut self, now: i64, generation: i32) {
        self.began.entry(generation).or_insert(now);
    }

    /// The time since when the session of a member with an assignment of `generation` lasts at least. As in Kafka, the
    /// session begins anew with the generation, but not when a stable group replies to JoinGroup or SyncGroup: a member
    /// that repeated its request because a response got lost can expire right after it got its assignment.
    pub(crate) fn begun_at(&self, generation: i32) -> i64 {
        self.began.get(&generation).copied().unwrap_or(i64::MIN)
    }

    /// A client begins or continues to read `topic_partition`. As its session began anew at `proven_at`, it may believe in it
    /// until `until`.
    pub(crate) fn claim(
        &mut self,
        now: i64,
        client: ClientId,
        (group, topic_partition): (&ByteString, &TopicPartition),
        (proven_at, until): (i64, i64),
    ) -> Result<(), String> {
        let until = if proven_at > self.doubted_at {
            until
        } else {
            until.min(self.doubted_at)
        };
        let claims = self.claims.entry((group.clone(), topic_partition.clone())).or_default();
        let claim = claims.entry(client).or_insert(Claim { since: now, until });
        claim.until = claim.until.max(until);
        let mine = claim.until;
        if self.only_generations || mine <= now {
            return Ok(());
        }
        let other = claims
            .iter()
            .find(|(other, claim)| **other != client && claim.until > now);
        other.map_or(Ok(()), |(other, claim)| {
            Err(format!(
                "{topic_partition} of {group} belongs to client {client} (until {mine}) and to client {other} (since {}, until {})",
                claim.since, claim.until
            ))
        })
    }

    pub(crate) fn release(&mut self, client: ClientId, group: &ByteString, topic_partition: &TopicPartition) {
        if let Some(claims) = self.claims.get_mut(&(group.clone(), topic_partition.clone())) {
            claims.remove(&client);
        }
    }

    pub(crate) fn release_all(&mut self, client: ClientId) {
        for claims in self.claims.values_mut() {
            claims.remove(&client);
        }
    }

    /// The broker may have expired this client.
    pub(crate) fn doubt(&mut self, now: i64, client: ClientId) {
        for claim in self.claims.values_mut().filter_map(|claims| claims.get_mut(&client)) {
            claim.until = claim.until.min(now);
        }
    }

    /// The broker's clock jumped: it may expire any member at once.
    pub(crate) fn doubt_all(&mut self, now: i64) {
        self.doubted_at = now;
        for claim in self.claims.values_mut().flat_map(BTreeMap::values_mut) {
            claim.until = claim.until.min(now);
        }
    }

    /// A commit that was sent at `sent_at` has succeeded: no other member may have owned the partition from then until
    /// now.
    pub(crate) fn check_commit(
        &self,
        now: i64,
        client: ClientId,
        (group, topic_partition): (&ByteString, &TopicPartition),
        sent_at: i64,
    ) -> Result<(), String> {
        let claims = self.claims.get(&(group.clone(), topic_partition.clone()));
        let other = claims.into_iter().flatten();
        let mut other = other.filter(|(other, claim)| **other != client && claim.since < sent_at && claim.until > now);
        match other.next().filter(|_| !self.only_generations) {
            Some((other, claim)) => Err(format!(
                "a commit of client {client} for {topic_partition} of {group} succeeded although it belongs to client {other} since {}",
                claim.since
            )),
            None => Ok(()),
        }
    }

    pub(super) fn check_settled(
        &self,
        now: i64,
        group: &ByteString,
        topic_partition: &TopicPartition,
        wanting: &[ClientId],
    ) -> Result<(), String> {
        let claims = self.claims.get(&(group.clone(), topic_partition.clone()));
        let claims = claims.into_iter().flatten().filter(|(_, claim)| claim.until > now);
        let owners: Vec<ClientId> = claims.map(|(client, _)| *client).collect();
        match owners.as_slice() {
            [owner] if wanting.contains(owner) => Ok(()),
            [] => Err(format!(
                "no member reads {topic_partition} of {group}, although clients {wanting:?} subscribe to it"
            )),
            owners => Err(format!(
                "{topic_partition} of {group} is read by clients {owners:?}; its subscribers are {wanting:?}"
            )),
        }
    }
}

//! Checks: conditions that hold whatever goes wrong.
//!
//! A check only counts responses that clients got: a lost response promises nothing. The first violation ends the run.

mod fencing;
mod listeners;
mod offsets;
mod owners;
mod transactions;
mod writes;

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::{TopicPartition, TopicsImage};
use regex::Regex;

pub(crate) use fencing::Fencing;
pub(crate) use listeners::Listeners;
pub(crate) use offsets::CommittedOffsets;
pub(crate) use owners::Owners;
pub(crate) use transactions::{Outcome, PartitionRead, Transactions, offset_partition};
pub(crate) use writes::{ReportedResult, Writes, input_partition};

use crate::clients::ClientId;

#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) owners: Owners,
    pub(crate) offsets: CommittedOffsets,
    pub(crate) fencing: Fencing,
    pub(crate) listeners: Listeners,
    pub(crate) transactions: Transactions,
    pub(crate) writes: Writes,
    /// The members that want partitions.
    pub(crate) members: BTreeMap<ClientId, Subscription>,
    failure: Option<String>,
}

/// The subscription of a member.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) group: ByteString,
    pub(crate) topics: Vec<ByteString>,
    pub(crate) pattern: Option<ByteString>,
}

impl Subscription {
    pub(crate) fn wants(&self, topic: &str) -> bool {
        let matches =
            |pattern: &ByteString| Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|pattern| pattern.is_match(topic));
        self.topics.iter().any(|wanted| wanted == topic) || self.pattern.as_ref().is_some_and(matches)
    }
}

impl Checks {
    /// Notes a violation. Later ones are consequences, and are ignored.
    pub(crate) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    pub(crate) fn demand(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.fail(what);
        }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A process requests to take the topic_partition of all others with its instance id.
    pub(crate) fn takes_over(&mut self, now: i64, client: ClientId, group: &ByteString, instance: &ByteString) {
        for other in self.fencing.takes_over(client, group, instance) {
            self.owners.doubt(now, other);
        }
    }

    /// A process got the response that it is the static member: it takes the topic_partition of all others with its instance id.
    pub(crate) fn joined(
        &mut self,
        (sent_at, now): (i64, i64),
        client: ClientId,
        group: &ByteString,
        instance: Option<&ByteString>,
    ) {
        let Some(instance) = instance else { return };
        for other in self.fencing.joined((sent_at, now), client, group, instance) {
            self.owners.doubt(now, other);
        }
    }

    /// After all faults have stopped and enough time has passed: each subscribed partition has one owner, and that one
    /// subscribes to it.
    pub(crate) fn settled(&mut self, now: i64, topics: &TopicsImage) {
        let result = self.find_unsettled(now, topics);
        self.demand(result);
    }

    fn find_unsettled(&self, now: i64, topics: &TopicsImage) -> Result<(), String> {
        let mut groups: Vec<&ByteString> = self.members.values().map(|member| &member.group).collect();
        groups.sort();
        groups.dedup();
        for group in groups {
            for (topic, image) in topics.iter() {
                let wanting = self.members.iter();
                let wanting: Vec<ClientId> = wanting
                    .filter(|(_, member)| member.group == *group && member.wants(topic))
                    .map(|(client, _)| *client)
                    .collect();
                if wanting.is_empty() {
                    continue;
                }
                for partition in 0..image.partitions {
                    let topic_partition = TopicPartition {
                        topic: topic.clone(),
                        partition,
                    };
                    self.owners.check_settled(now, group, &topic_partition, &wanting)?;
                }
            }
        }
        Ok(())
    }
}

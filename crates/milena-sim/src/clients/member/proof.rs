//! The time until which a member may believe in its ownership.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::TopicPartition;

use super::{MemberSettings, ProtocolSettings};
use crate::clients::Io;

/// The facts that the broker's responses prove.
#[derive(Debug)]
pub(super) struct Proof {
    /// The time since when the session lasts at least.
    pub(super) proven_at: i64,
    /// In the consumer protocol: when a heartbeat was sent before and after which there was nothing to revoke.
    pub(super) clean_at: i64,
    /// The last assignment from the broker. In the classic protocol, only this is proven by later responses.
    pub(super) target: Option<BTreeSet<TopicPartition>>,
    /// In the consumer protocol: the owned partitions that were last reported to the broker.
    pub(super) reported: BTreeSet<TopicPartition>,
    /// In the classic protocol: when a new member requested to join, until it knows its assignment.
    pub(super) let_in_at: Option<i64>,
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            proven_at: i64::MIN,
            clean_at: i64::MIN,
            target: None,
            reported: BTreeSet::new(),
            let_in_at: None,
        }
    }
}

impl Proof {
    /// Whether the broker waits for the application to revoke a partition.
    pub(super) fn must_revoke(&self) -> bool {
        self.target
            .as_ref()
            .is_some_and(|target| !self.reported.is_subset(target))
    }

    /// The member believes in its partitions until the broker could have expired it.
    pub(super) fn extend_claims(&self, settings: &MemberSettings, io: &mut Io<'_>, reads: &BTreeSet<TopicPartition>) {
        let group: &ByteString = &settings.group;
        if io
            .checks
            .fencing
            .may_be_replaced(io.id, group, settings.instance.as_ref())
        {
            return;
        }
        let rebalance_ms = i64::from(settings.rebalance_ms);
        let (proven_at, until) = match settings.protocol {
            ProtocolSettings::Classic { session_ms, .. } => {
                let lasts = i64::from(session_ms).min(rebalance_ms);
                (self.proven_at, self.proven_at.saturating_add(lasts))
            }
            ProtocolSettings::Consumer { session_ms, .. } => {
                let by_session = self.proven_at.saturating_add(i64::from(session_ms));
                let by_rebalance = self.clean_at.saturating_add(rebalance_ms);
                (self.proven_at.min(self.clean_at), by_session.min(by_rebalance))
            }
        };
        let now = io.now();
        let is_classic = matches!(settings.protocol, ProtocolSettings::Classic { .. });
        let is_proven = |topic_partition: &&TopicPartition| {
            !is_classic
                || self
                    .target
                    .as_ref()
                    .is_some_and(|target| target.contains(*topic_partition))
        };
        for topic_partition in reads.iter().filter(is_proven) {
            let result = io
                .checks
                .owners
                .claim(now, io.id, (group, topic_partition), (proven_at, until));
            io.checks.demand(result);
        }
    }
}

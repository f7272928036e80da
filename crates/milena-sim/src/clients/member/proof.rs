//! How long a member may believe that it owns what it owns.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::TopicPartition;

use super::{MemberSettings, ProtocolSettings};
use crate::clients::Io;

/// What the broker's answers prove.
#[derive(Debug)]
pub(super) struct Proof {
    /// Since when the session lasts at least.
    pub(super) proven_at: i64,
    /// In the consumer protocol: when a heartbeat was sent before and after which there was nothing to let go of.
    pub(super) clean_at: i64,
    /// What the broker last told to be ours. In the classic protocol, only this is proven by what follows.
    pub(super) target: Option<BTreeSet<TopicPartition>>,
    /// In the classic protocol: when we asked to be let in as somebody new, until we know what is ours.
    pub(super) let_in_at: Option<i64>,
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            proven_at: i64::MIN,
            clean_at: i64::MIN,
            target: None,
            let_in_at: None,
        }
    }
}

impl Proof {
    /// Whether the broker waits for the application to let go of something.
    pub(super) fn must_revoke(&self, owned: &BTreeSet<TopicPartition>) -> bool {
        self.target.as_ref().is_some_and(|target| !owned.is_subset(target))
    }

    /// The member believes in what it reads until the broker could have given it up.
    pub(super) fn hold(&self, settings: &MemberSettings, io: &mut Io<'_>, reads: &BTreeSet<TopicPartition>) {
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
        let is_proven =
            |place: &&TopicPartition| !is_classic || self.target.as_ref().is_some_and(|target| target.contains(*place));
        for place in reads.iter().filter(is_proven) {
            let held = io.checks.owners.hold(now, io.id, (group, place), (proven_at, until));
            io.checks.demand(held);
        }
    }
}

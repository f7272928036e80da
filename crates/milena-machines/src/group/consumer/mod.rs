//! Groups of the consumer protocol, in which the broker assigns (KIP-848): ConsumerGroupHeartbeat.
//!
//! A group has an epoch, which is bumped when members or topics change. For each epoch there is a target assignment.
//! Each member reconciles with it at its own pace, in heartbeats, and no partition has two owners on the way.

mod assignors;
mod checks;
mod classic_members;
mod describe;
mod group;
mod heartbeat;
mod leave;
mod member;
mod migration;
mod reconcile;
mod regex;
mod replay;
mod settle;
mod target;
mod timeouts;
mod validate;

use bytestring::ByteString;
use milena_wire::{errors::ErrorCode, messages::ConsumerGroupMemberMetadataValue as MemberMetadata};

use super::{Group, GroupCoordinator, GroupEffects};
use crate::TopicsImage;

pub use assignors::CONSUMER_ASSIGNORS;
pub(super) use group::ConsumerGroup;

/// A deadline of a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The end of the session.
    Session(ByteString),
    /// The end of the rebalance timeout for revoking partitions.
    Rebalance(ByteString),
    /// The end of the rebalance timeout of a member of the classic protocol that must rejoin.
    Join(ByteString),
    /// The end of the rebalance timeout of a member of the classic protocol that must send SyncGroup.
    Sync(ByteString),
}

/// The error of a request that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    code: ErrorCode,
    message: String,
}

fn refuse(code: ErrorCode, message: impl Into<String>) -> Refusal {
    let message = message.into();
    Refusal { code, message }
}

impl GroupCoordinator {
    /// Marks the groups whose topics have changed; the next heartbeat of any member handles it.
    pub(super) fn consumer_topics_changed(&mut self, _now_ms: i64, before: &TopicsImage, _effects: &mut GroupEffects) {
        let after = &self.topics;
        let gone = before.iter().filter(|(name, _)| after.by_name(name).is_none());
        let new = after
            .iter()
            .filter(|(name, topic)| before.by_name(name) != Some(*topic));
        let changed: Vec<&ByteString> = gone.chain(new).map(|(name, _)| name).collect();
        let has_created = after.iter().any(|(name, topic)| {
            let old = before.by_name(name);
            old.is_none_or(|old| old.id != topic.id)
        });
        for group in self.groups.values_mut() {
            if let Group::Consumer(group) = group {
                let is_concerned = changed.iter().any(|name| group.is_subscribed_to(name));
                group.topics_changed |= is_concerned;
                if has_created && !group.regexes.is_empty() {
                    group.regexes_matched_ms = None;
                }
            }
        }
    }
}

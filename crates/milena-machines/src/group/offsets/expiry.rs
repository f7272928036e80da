//! Expiry of offsets, and removal of empty groups.

use bytestring::ByteString;

use super::CommittedOffset;
use crate::group::{
    Group, GroupCoordinator, GroupEffects, GroupRecord, Timer,
    classic::{ClassicGroup, State},
};

/// The time from which the age of an offset counts.
#[derive(Debug, Clone, Copy)]
enum AgeSince {
    Commit,
    /// Since the group became empty; if that is not known, since the commit.
    Empty(Option<i64>),
}

impl GroupCoordinator {
    pub(in crate::group) fn offsets_start(&mut self, now_ms: i64) {
        let interval_ms = self.config.offsets_retention_check_interval_ms;
        self.timers.set(Timer::ExpireOffsets, now_ms + interval_ms);
    }

    pub(in crate::group) fn expire_offsets(&mut self, now_ms: i64, effects: &mut GroupEffects) {
        let mut group_ids: Vec<ByteString> = self.groups.keys().cloned().collect();
        let only_offsets = self.offsets.group_ids().into_iter();
        group_ids.extend(
            only_offsets
                .filter(|group_id| !self.groups.contains_key(*group_id))
                .cloned(),
        );
        for group_id in group_ids {
            self.expire_offsets_of(now_ms, &group_id, effects);
            if !self.offsets.has_group(&group_id) {
                self.remove_empty_group(&group_id, effects);
            }
        }
        self.offsets_start(now_ms);
    }

    fn expire_offsets_of(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(since) = self.age_since(group_id) else {
            return; // In use.
        };
        let retention_ms = self.config.offsets_retention_ms;
        let expired: Vec<_> = self
            .offsets
            .committed
            .entries_of(group_id)
            .filter(|(_, committed)| committed.is_expired(since, now_ms, retention_ms))
            .map(|(key, _)| key)
            .filter(|key| self.offsets.open.get(key).is_none() && !self.is_subscribed(group_id, &key.topic))
            .collect();
        for key in expired {
            self.write(GroupRecord::Offset { key, value: None }, effects);
        }
    }

    /// `None` if the group's offsets do not expire now.
    fn age_since(&self, group_id: &ByteString) -> Option<AgeSince> {
        match self.groups.get(group_id) {
            Some(Group::Classic(group)) => group.age_since(),
            Some(Group::Consumer(_)) | None => Some(AgeSince::Commit),
        }
    }
}

impl ClassicGroup {
    fn age_since(&self) -> Option<AgeSince> {
        let knows_topics = self.uses_consumer_protocol() && self.subscribed_topics.is_some();
        match self.state {
            _ if self.protocol_type.is_none() => Some(AgeSince::Commit),
            State::Empty => Some(AgeSince::Empty(self.state_since_ms)),
            State::Stable if knows_topics => Some(AgeSince::Commit),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => None,
        }
    }
}

impl CommittedOffset {
    fn is_expired(&self, since: AgeSince, now_ms: i64, retention_ms: i64) -> bool {
        if self.value.expire_timestamp != -1 {
            return now_ms >= self.value.expire_timestamp;
        }
        let since_ms = match since {
            AgeSince::Commit => self.value.commit_timestamp,
            AgeSince::Empty(since_ms) => since_ms.unwrap_or(self.value.commit_timestamp),
        };
        now_ms.saturating_sub(since_ms) >= retention_ms
    }
}

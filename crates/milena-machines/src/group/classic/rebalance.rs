//! Rebalances: from one generation to the next.

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::{invariant, violated};
use milena_wire::{errors::ErrorCode, messages::SyncGroupResponse};

use super::{
    Timer,
    state::{InitialDelay, State},
    timeouts,
};
use crate::group::{self, Group, GroupCoordinator, GroupEffects, GroupRecord};

/// The shortest wait for members to rejoin: they may request a rebalance timeout of zero, which must not keep the
/// coordinator busy.
const RETRY_MS_MIN: i32 = 100;

impl GroupCoordinator {
    /// Handles a change that the next generation must take into account.
    pub(super) fn rebalance_or_complete_join(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        match self.classic_group(group_id).map(|group| group.state) {
            Some(State::PreparingRebalance) => self.maybe_complete_join(now_ms, group_id, effects),
            Some(State::Empty | State::CompletingRebalance | State::Stable) => {
                self.prepare_rebalance(now_ms, group_id, effects);
            }
            None => violated!("a_group_in_a_rebalance_is_there"),
        }
    }

    /// Makes all members rejoin.
    pub(in crate::group) fn prepare_rebalance(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        self.timers.cancel(&timer(group_id, Timer::Sync));
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else {
            violated!("a_group_in_a_rebalance_is_there");
            return;
        };
        if group.state == State::CompletingRebalance {
            for (member_id, member) in &mut group.members {
                member.assignment = Bytes::new();
                let response = SyncGroupResponse {
                    error_code: ErrorCode::RebalanceInProgress.code(),
                    ..Default::default()
                };
                if member.reply_sync(response, effects) {
                    let timeout_ms = member.session_timeout_ms;
                    timeouts::keep_alive(&mut self.timers, group_id, (member_id, member), now_ms, timeout_ms);
                }
            }
        }
        group.pending_sync.clear();
        if group.state == State::Empty {
            let delay_ms = self.config.initial_rebalance_delay_ms;
            group.initial_delay = Some(InitialDelay {
                delay_ms,
                remaining_ms: group.rebalance_timeout_ms().saturating_sub(delay_ms).max(0),
                has_new_member: false,
            });
            group.enter(State::PreparingRebalance, now_ms);
            self.set_timer(group_id, Timer::Join, now_ms, delay_ms);
            return;
        }
        group.enter(State::PreparingRebalance, now_ms);
        let timeout_ms = group.rebalance_timeout_ms();
        if group.have_all_joined() {
            self.complete_join(now_ms, group_id, effects);
        } else {
            self.set_timer(group_id, Timer::Join, now_ms, timeout_ms);
        }
    }

    /// Completes the rebalance as soon as no member is missing. The first rebalance of a group waits for its delay in
    /// any case.
    pub(super) fn maybe_complete_join(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(group) = self.classic_group(group_id) else {
            violated!("a_group_in_a_rebalance_is_there");
            return;
        };
        if group.state == State::PreparingRebalance && group.initial_delay.is_none() && group.have_all_joined() {
            self.complete_join(now_ms, group_id, effects);
        }
    }

    /// Ends the join phase: begins a generation with the members that have joined, or an empty one.
    pub(super) fn complete_join(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        self.timers.cancel(&timer(group_id, Timer::Join));
        for member_id in self.missing_dynamic_members(group_id) {
            self.remove_member(group_id, &member_id, effects);
        }
        let Some(group) = self.classic_group_mut(group_id) else {
            violated!("a_group_in_a_rebalance_is_there");
            return;
        };
        group.initial_delay = None;
        if group.members.is_empty() {
            group.generation_id = group.generation_id.wrapping_add(1);
            group.protocol_name = None;
            group.pending_sync.clear();
            group.enter(State::Empty, now_ms);
            let value = Some(group.to_record());
            let group_id = group_id.clone();
            self.write(GroupRecord::Classic { group_id, value }, effects);
        } else if group.elect_joined_leader() {
            self.begin_generation(now_ms, group_id, effects);
        } else {
            // Only static members are left, and none has rejoined yet.
            let timeout_ms = group.rebalance_timeout_ms().max(RETRY_MS_MIN);
            self.set_timer(group_id, Timer::Join, now_ms, timeout_ms);
        }
    }

    /// Static members may be away for as long as their session lasts; all others must rejoin each time.
    fn missing_dynamic_members(&self, group_id: &str) -> Vec<ByteString> {
        let members = self.classic_group(group_id).map(|group| &group.members);
        let missing = members
            .into_iter()
            .flatten()
            .filter(|(_, member)| member.joining.is_none());
        missing
            .filter(|(_, member)| !member.is_static())
            .map(|(member_id, _)| member_id.clone())
            .collect()
    }

    fn begin_generation(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else {
            violated!("a_group_in_a_rebalance_is_there");
            return;
        };
        invariant!(
            group
                .leader_id
                .as_ref()
                .is_some_and(|leader| group.members.contains_key(leader)),
            "a_generation_has_a_leader_among_its_members"
        );
        group.generation_id = group.generation_id.wrapping_add(1);
        group.protocol_name = group.select_protocol();
        group.subscribed_topics = group.find_subscribed_topics();
        group.enter(State::CompletingRebalance, now_ms);
        group.pending_sync = group.members.keys().cloned().collect();
        let timeout_ms = group.rebalance_timeout_ms();
        let responses: Vec<_> = group
            .members
            .keys()
            .map(|member_id| group.joined(member_id.clone()))
            .collect();
        for ((member_id, member), response) in group.members.iter_mut().zip(responses) {
            member.reply_join(response, effects);
            member.is_new = false;
            let session_timeout_ms = member.session_timeout_ms;
            timeouts::keep_alive(
                &mut self.timers,
                group_id,
                (member_id, member),
                now_ms,
                session_timeout_ms,
            );
        }
        self.set_timer(group_id, Timer::Sync, now_ms, timeout_ms);
    }

    /// Removes a member and replies to its waiting requests. Also for a client that has only a member id so far.
    pub(super) fn remove_member(&mut self, group_id: &ByteString, member_id: &ByteString, effects: &mut GroupEffects) {
        timeouts::cancel_session(&mut self.timers, group_id, member_id);
        let removed = self
            .classic_group_mut(group_id)
            .and_then(|group| group.remove(member_id));
        if let Some(mut member) = removed {
            member.reply_error(ErrorCode::UnknownMemberId, &ByteString::new(), effects);
        }
    }

    pub(super) fn set_timer(&mut self, group_id: &ByteString, of: Timer, now_ms: i64, delay_ms: i32) {
        self.timers.set(timer(group_id, of), now_ms + i64::from(delay_ms));
    }
}

pub(super) fn timer(group_id: &ByteString, of: Timer) -> group::Timer {
    group::Timer::Classic {
        group: group_id.clone(),
        of,
    }
}

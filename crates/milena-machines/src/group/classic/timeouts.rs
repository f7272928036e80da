//! Session timeouts, and rebalances that continue without missing members.

use bytestring::ByteString;
use milena_invariant::{invariant, violated};

use super::{
    Timer,
    member::Member,
    rebalance::timer,
    state::{InitialDelay, State},
};
use crate::{
    group::{self, Group, GroupCoordinator, GroupEffects},
    timers::Timers,
};

impl GroupCoordinator {
    pub(in crate::group) fn classic_timeout(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        of: Timer,
        effects: &mut GroupEffects,
    ) {
        match of {
            Timer::Join => self.join_timeout(now_ms, group_id, effects),
            Timer::Sync => self.sync_timeout(now_ms, group_id, effects),
            Timer::Session(member_id) => self.session_timeout(now_ms, group_id, &member_id, effects),
        }
    }

    /// The first rebalance is extended while members keep joining.
    fn join_timeout(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else {
            violated!("every_classic_timer_has_a_group");
            return;
        };
        if !invariant!(
            group.state == State::PreparingRebalance,
            "the_join_timer_runs_while_members_join"
        ) {
            return;
        }
        match &mut group.initial_delay {
            Some(delay) if delay.has_new_member && delay.remaining_ms > 0 => {
                let InitialDelay {
                    delay_ms, remaining_ms, ..
                } = *delay;
                *delay = InitialDelay {
                    delay_ms: self.config.initial_rebalance_delay_ms.min(remaining_ms),
                    remaining_ms: remaining_ms.saturating_sub(delay_ms).max(0),
                    has_new_member: false,
                };
                let delay_ms = delay.delay_ms;
                self.set_timer(group_id, Timer::Join, now_ms, delay_ms);
            }
            _ => self.complete_join(now_ms, group_id, effects),
        }
    }

    /// Removes members that never sent SyncGroup.
    fn sync_timeout(&mut self, now_ms: i64, group_id: &ByteString, effects: &mut GroupEffects) {
        let Some(group) = self.classic_group(group_id) else {
            violated!("every_classic_timer_has_a_group");
            return;
        };
        if !invariant!(
            matches!(group.state, State::CompletingRebalance | State::Stable),
            "the_sync_timer_runs_after_the_join_phase"
        ) {
            return;
        }
        if group.pending_sync.is_empty() {
            return; // Stale: the last missing members left.
        }
        for member_id in group.pending_sync.clone() {
            self.remove_member(group_id, &member_id, effects);
        }
        self.prepare_rebalance(now_ms, group_id, effects);
    }

    fn session_timeout(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        let Some(Group::Classic(group)) = self.groups.get_mut(group_id) else {
            violated!("every_classic_timer_has_a_group");
            return;
        };
        if let Some(member) = group.members.get_mut(member_id) {
            if let Some(deadline_ms) = member.session_deadline_ms.filter(|deadline_ms| *deadline_ms > now_ms) {
                // There was a heartbeat since the timer was set.
                self.timers
                    .set(timer(group_id, Timer::Session(member_id.clone())), deadline_ms);
                return;
            }
            member.session_deadline_ms = None;
            if member.waits_for_reply() {
                return;
            }
        }
        let state = group.state;
        let was_member = group.members.contains_key(member_id);
        self.remove_member(group_id, member_id, effects);
        match state {
            State::Stable | State::CompletingRebalance if was_member => {
                self.prepare_rebalance(now_ms, group_id, effects);
            }
            State::PreparingRebalance => {
                let all_joined = self
                    .classic_group(group_id)
                    .is_some_and(|group| group.have_all_joined());
                if all_joined {
                    self.complete_join(now_ms, group_id, effects);
                }
            }
            State::Empty | State::Stable | State::CompletingRebalance => {}
        }
    }
}

/// Renews a member's session. Only an earlier deadline moves the timer; a later one is checked when the timer fires.
pub(in crate::group) fn keep_alive(
    timers: &mut Timers<group::Timer>,
    group_id: &ByteString,
    (member_id, member): (&ByteString, &mut Member),
    now_ms: i64,
    timeout_ms: i32,
) {
    let deadline_ms = now_ms + i64::from(timeout_ms);
    let is_earlier = member.session_deadline_ms.is_none_or(|old| deadline_ms < old);
    member.session_deadline_ms = Some(deadline_ms);
    if is_earlier {
        timers.set_no_later(timer(group_id, Timer::Session(member_id.clone())), deadline_ms);
    }
}

pub(super) fn cancel_session(timers: &mut Timers<group::Timer>, group_id: &ByteString, member_id: &ByteString) {
    timers.cancel(&timer(group_id, Timer::Session(member_id.clone())));
}

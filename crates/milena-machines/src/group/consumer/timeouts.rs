//! Timeouts of members.

use bytestring::ByteString;
use milena_invariant::{invariant, violated};

use super::{Timer, member::MemberState, settle::Report};
use crate::group::{self, Group, GroupCoordinator, GroupEffects};

impl GroupCoordinator {
    /// Starts a new session for every member, and a new rebalance timeout for those that must revoke.
    pub(in crate::group) fn consumer_start(&mut self, now_ms: i64, _effects: &mut GroupEffects) {
        let mut members = vec![];
        for (group_id, group) in &self.groups {
            if let Group::Consumer(group) = group {
                for (member_id, member) in &group.members {
                    let must_revoke =
                        member.current.state == MemberState::UnrevokedPartitions && !member.uses_classic_protocol();
                    let revoke_ms = must_revoke.then_some(member.metadata.rebalance_timeout_ms);
                    members.push((group_id.clone(), member_id.clone(), revoke_ms));
                }
            }
        }
        for (group_id, member_id, revoke_ms) in members {
            let timeout_ms = self.session_timeout_ms(&group_id, &member_id);
            self.renew_session(now_ms, &group_id, &member_id, timeout_ms);
            let report = Report {
                now_ms,
                group_id: &group_id,
                member_id: &member_id,
                owned: None,
                visible_topics: None,
            };
            self.set_rebalance_timer(&report, revoke_ms);
        }
    }

    pub(in crate::group) fn consumer_timeout(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        of: Timer,
        effects: &mut GroupEffects,
    ) {
        match of {
            Timer::Session(member_id) => self.consumer_session_timeout(now_ms, group_id, &member_id, effects),
            Timer::Rebalance(member_id) => {
                let member = self.consumer_member(group_id, &member_id);
                if invariant!(
                    member.is_some_and(|member| member.current.state == MemberState::UnrevokedPartitions),
                    "the_rebalance_timer_runs_while_a_member_revokes"
                ) {
                    self.fence_members(now_ms, group_id, &[member_id], effects);
                }
            }
            Timer::Join(member_id) | Timer::Sync(member_id) => {
                let member = self.consumer_member(group_id, &member_id);
                if invariant!(member.is_some(), "every_timer_of_a_member_has_a_member") {
                    self.fence_members(now_ms, group_id, &[member_id], effects);
                }
            }
        }
    }

    /// Heartbeats leave the timer where it is: after a heartbeat the timer is set again to the new deadline.
    fn consumer_session_timeout(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else {
            violated!("every_session_timer_has_a_group");
            return;
        };
        let Some(member) = group.members.get_mut(member_id) else {
            violated!("every_session_timer_has_a_member");
            return;
        };
        if member.session_deadline_ms <= now_ms {
            self.fence_members(now_ms, group_id, std::slice::from_ref(member_id), effects);
            return;
        }
        member.session_timer_ms = member.session_deadline_ms;
        let deadline_ms = member.session_deadline_ms;
        self.timers
            .set(timer(group_id, Timer::Session(member_id.clone())), deadline_ms);
    }

    /// The session timeout of a member: one of the classic protocol has its own.
    pub(super) fn session_timeout_ms(&self, group_id: &str, member_id: &str) -> i32 {
        let member = self.consumer_member(group_id, member_id);
        let classic = member.and_then(|member| member.metadata.classic_member_metadata.as_ref());
        classic.map_or_else(
            || self.config.consumer_session_timeout_ms(group_id),
            |classic| classic.session_timeout_ms,
        )
    }

    pub(super) fn renew_session(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        member_id: &ByteString,
        timeout_ms: i32,
    ) {
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else {
            violated!("a_member_with_a_session_has_a_group");
            return;
        };
        let Some(member) = group.members.get_mut(member_id) else {
            violated!("a_session_has_a_member");
            return;
        };
        let deadline_ms = now_ms.saturating_add(timeout_ms.into());
        member.session_deadline_ms = deadline_ms;
        if deadline_ms < member.session_timer_ms {
            member.session_timer_ms = deadline_ms;
            self.timers
                .set(timer(group_id, Timer::Session(member_id.clone())), deadline_ms);
        }
    }

    /// Sets the rebalance timeout of a member that must revoke partitions; `None` cancels it.
    pub(super) fn set_rebalance_timer(&mut self, report: &Report<'_>, timeout_ms: Option<i32>) {
        let timer = timer(report.group_id, Timer::Rebalance(report.member_id.clone()));
        match timeout_ms {
            Some(timeout_ms) => self.timers.set(timer, report.now_ms.saturating_add(timeout_ms.into())),
            None => self.timers.cancel(&timer),
        }
    }

    pub(super) fn cancel_member_timers(&mut self, group_id: &ByteString, member_id: &ByteString) {
        for of in [Timer::Session, Timer::Rebalance, Timer::Join, Timer::Sync] {
            self.timers.cancel(&timer(group_id, of(member_id.clone())));
        }
    }
}

pub(super) fn timer(group: &ByteString, of: Timer) -> group::Timer {
    let group = group.clone();
    group::Timer::Consumer { group, of }
}

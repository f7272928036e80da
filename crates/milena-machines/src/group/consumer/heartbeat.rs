//! ConsumerGroupHeartbeat: joins a member, takes its subscription and owned partitions, and returns its assignment.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_heartbeat_response::{Assignment, TopicPartitions},
    },
};

use super::{
    MemberMetadata, Refusal,
    checks::{
        check_epoch, check_new_regex, check_own_regex, check_released, check_request, check_size, not_a_consumer_group,
    },
    member::{EpochPartitions, new_metadata},
    refuse,
    settle::Report,
};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupReply};

impl GroupCoordinator {
    pub(in crate::group) fn consumer_heartbeat(
        &mut self,
        context: &GroupContext,
        request: ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        let response = self.try_consumer_heartbeat(context, request, effects);
        GroupReply::ConsumerHeartbeat(response.unwrap_or_else(|refusal| ConsumerGroupHeartbeatResponse {
            error_code: refusal.code.code(),
            error_message: Some(refusal.message.into()),
            ..Default::default()
        }))
    }

    fn try_consumer_heartbeat(
        &mut self,
        context: &GroupContext,
        mut request: ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        if !self.config.consumer_protocol_enabled {
            let message = "The consumer group protocol is not enabled on this broker.";
            return Err(refuse(ErrorCode::UnsupportedVersion, message));
        }
        check_request(&request, context.version, &self.config.consumer_assignors)?;
        if request.member_epoch < 0 {
            return self.leave_by_heartbeat(context, &request, effects);
        }
        if let Some(names) = &mut request.subscribed_topic_names {
            names.sort_unstable();
            names.dedup();
        }
        if request.member_epoch == 0 {
            return self.join_by_heartbeat(context, request, effects);
        }
        let group = match self.groups.get_mut(&request.group_id) {
            Some(Group::Consumer(group)) => group,
            group => return Err(not_a_consumer_group(&request.group_id, group.is_some())),
        };
        check_size(group, &request.member_id, self.config.consumer_size_max)?;
        let instance_id = request.instance_id.as_ref();
        let member = group.member(&request.group_id, &request.member_id, instance_id)?;
        check_epoch(member, &request)?;
        let metadata = updated_metadata(&member.metadata, context, &request);
        let is_quiet = metadata.is_none()
            && !group.topics_changed
            && !group.regexes_are_due(context.now_ms, self.config.regex_refresh_interval_ms)
            && group.target_epoch >= group.epoch
            && member.is_reconciled_to(group.target_epoch);
        let mut assignment_changed = false;
        if !is_quiet {
            check_new_regex(group, &member.metadata, metadata.as_ref())?;
            assignment_changed = self.settle_member(&report_of(context, &request), metadata, effects);
        }
        Ok(self.heartbeat_response(context, &request, assignment_changed))
    }

    fn join_by_heartbeat(
        &mut self,
        context: &GroupContext,
        mut request: ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let instance_id = request.instance_id.clone();
        match self.groups.get(&request.group_id) {
            None => check_own_regex(&request)?,
            Some(Group::Classic(group)) => {
                self.check_upgrade(&request, group)?;
                check_own_regex(&request)?;
                self.upgrade(context.now_ms, &request.group_id, effects)?;
            }
            Some(Group::Consumer(group)) => {
                check_size(group, &request.member_id, self.config.consumer_size_max)?;
                let old = match &instance_id {
                    Some(instance_id) => group.static_member(instance_id),
                    None => group.members.get_key_value(&request.member_id),
                };
                if let (Some(instance_id), Some((old_id, old))) = (&instance_id, old) {
                    check_released(instance_id, old_id, old, &request.member_id)?;
                }
                let new = new_metadata();
                let old = old.map_or(&new, |(_, old)| &old.metadata);
                let metadata = updated_metadata(old, context, &request);
                check_new_regex(group, old, metadata.as_ref())?;
            }
        }
        if request.member_id.is_empty() {
            request.member_id = self.random.uuid().into();
        }
        if let Some(instance_id) = &instance_id {
            self.replace_consumer_static_member(&request.group_id, instance_id, &request.member_id, effects);
        }
        let member = self.consumer_member(&request.group_id, &request.member_id);
        let metadata = match member {
            Some(member) => updated_metadata(&member.metadata, context, &request),
            None => {
                let new = new_metadata();
                Some(updated_metadata(&new, context, &request).unwrap_or(new))
            }
        };
        self.settle_member(&report_of(context, &request), metadata, effects);
        Ok(self.heartbeat_response(context, &request, true))
    }

    /// Renews the session of the member and builds its response.
    fn heartbeat_response(
        &mut self,
        context: &GroupContext,
        request: &ConsumerGroupHeartbeatRequest,
        assignment_changed: bool,
    ) -> ConsumerGroupHeartbeatResponse {
        let timeout_ms = self.config.consumer_session_timeout_ms(&request.group_id);
        self.renew_session(context.now_ms, &request.group_id, &request.member_id, timeout_ms);
        let is_full = request.rebalance_timeout_ms != -1
            && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
            && request.topic_partitions.is_some();
        let member = self.consumer_member(&request.group_id, &request.member_id);
        let current = member.map(|member| &member.current);
        ConsumerGroupHeartbeatResponse {
            member_id: Some(request.member_id.clone()),
            member_epoch: current.map_or(0, |current| current.epoch),
            heartbeat_interval_ms: self.config.consumer_heartbeat_interval_ms(&request.group_id),
            assignment: current
                .filter(|_| assignment_changed || is_full)
                .map(|current| assignment_of(&current.assigned)),
            ..Default::default()
        }
    }
}

fn report_of<'a>(context: &'a GroupContext, request: &'a ConsumerGroupHeartbeatRequest) -> Report<'a> {
    Report {
        now_ms: context.now_ms,
        group_id: &request.group_id,
        member_id: &request.member_id,
        owned: request.topic_partitions.as_deref(),
        visible_topics: Some(&context.visible_topics),
    }
}

fn assignment_of(assigned: &EpochPartitions) -> Assignment {
    let topics = assigned.iter().map(|(topic_id, partitions)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.keys().copied().collect(),
        ..Default::default()
    });
    Assignment {
        topic_partitions: topics.collect(),
        ..Default::default()
    }
}

/// The metadata updated from a request; `None` if nothing changes.
fn updated_metadata(
    old: &MemberMetadata,
    context: &GroupContext,
    request: &ConsumerGroupHeartbeatRequest,
) -> Option<MemberMetadata> {
    let says_new = |new: &Option<ByteString>, old: &Option<ByteString>| new.is_some() && new != old;
    let names = request.subscribed_topic_names.as_ref();
    let timeout_ms = request.rebalance_timeout_ms;
    let is_new = says_new(&request.instance_id, &old.instance_id)
        || says_new(&request.rack_id, &old.rack_id)
        || (timeout_ms != -1 && timeout_ms != old.rebalance_timeout_ms)
        || says_new(&request.server_assignor, &old.server_assignor)
        || names.is_some_and(|names| *names != old.subscribed_topic_names)
        || says_new(&request.subscribed_topic_regex, &old.subscribed_topic_regex)
        || context.client_id != old.client_id
        || context.client_host != old.client_host
        || old.classic_member_metadata.is_some();
    if !is_new {
        return None;
    }
    let newer = |new: &Option<ByteString>, old: &Option<ByteString>| new.clone().or_else(|| old.clone());
    Some(MemberMetadata {
        instance_id: newer(&request.instance_id, &old.instance_id),
        rack_id: newer(&request.rack_id, &old.rack_id),
        client_id: context.client_id.clone(),
        client_host: context.client_host.clone(),
        subscribed_topic_names: names.unwrap_or(&old.subscribed_topic_names).clone(),
        subscribed_topic_regex: newer(&request.subscribed_topic_regex, &old.subscribed_topic_regex),
        rebalance_timeout_ms: if timeout_ms == -1 {
            old.rebalance_timeout_ms
        } else {
            timeout_ms
        },
        server_assignor: newer(&request.server_assignor, &old.server_assignor),
        classic_member_metadata: None,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Ticket, TopicImage, TopicsImage,
        group::{GroupConfig, GroupRequest, VisibleTopics, consumer::ConsumerGroup},
    };

    const INTERVAL_MS: i64 = 600_000;

    fn topics(names: &[&'static str]) -> Arc<TopicsImage> {
        let mut topics = TopicsImage::default();
        for name in names {
            let id = milena_wire::Uuid::from_bytes([name.len() as u8; 16]);
            topics.insert(ByteString::from_static(name), TopicImage { id, partitions: 1 });
        }
        Arc::new(topics)
    }

    fn beat(coordinator: &mut GroupCoordinator, now_ms: i64, member_epoch: i32) -> i32 {
        let context = GroupContext {
            now_ms,
            ticket: Ticket(1),
            version: 1,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            visible_topics: VisibleTopics::default(),
        };
        let is_join = member_epoch == 0;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "group".into(),
            member_id: "member".into(),
            member_epoch,
            rebalance_timeout_ms: if is_join { 1_000 } else { -1 },
            subscribed_topic_regex: is_join.then(|| "t.*".into()),
            topic_partitions: is_join.then(Vec::new),
            ..Default::default()
        };
        let effects = coordinator.handle_request(&context, GroupRequest::ConsumerHeartbeat(request));
        match effects.replies.into_iter().next() {
            Some((_, GroupReply::ConsumerHeartbeat(response))) => {
                assert_eq!(response.error_code, 0, "{response:?}");
                response.member_epoch
            }
            reply => panic!("{reply:?}"),
        }
    }

    fn group(coordinator: &GroupCoordinator) -> &ConsumerGroup {
        match coordinator.groups.get("group") {
            Some(Group::Consumer(group)) => group,
            group => panic!("{group:?}"),
        }
    }

    /// Changes are handled once, not in every heartbeat: that would cost, and change nothing.
    #[test]
    fn topics_and_patterns_are_looked_at_once() {
        let config = GroupConfig::default();
        assert_eq!(i64::from(config.regex_refresh_interval_ms), INTERVAL_MS);
        let mut coordinator = GroupCoordinator::new(config, topics(&["t1"]), 1);
        let epoch = beat(&mut coordinator, 1_000, 0);
        assert!(!group(&coordinator).topics_changed);
        assert_eq!(group(&coordinator).regexes_matched_ms, Some(1_000));
        beat(&mut coordinator, 2_000, epoch);
        assert_eq!(group(&coordinator).regexes_matched_ms, Some(1_000));
        // One topic is deleted, then one is created.
        coordinator.set_topics(2_500, topics(&[]));
        assert!(group(&coordinator).topics_changed);
        let epoch = beat(&mut coordinator, 3_000, epoch);
        assert!(!group(&coordinator).topics_changed);
        coordinator.set_topics(3_500, topics(&["other"]));
        assert!(!group(&coordinator).topics_changed);
        assert_eq!(group(&coordinator).regexes_matched_ms, None);
        beat(&mut coordinator, 4_000, epoch);
        assert_eq!(group(&coordinator).regexes_matched_ms, Some(4_000));
        beat(&mut coordinator, 4_000 + INTERVAL_MS - 1, epoch);
        assert_eq!(group(&coordinator).regexes_matched_ms, Some(4_000));
        beat(&mut coordinator, 4_000 + INTERVAL_MS, epoch);
        assert_eq!(group(&coordinator).regexes_matched_ms, Some(4_000 + INTERVAL_MS));
    }
}

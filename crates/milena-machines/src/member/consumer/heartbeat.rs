//! `ConsumerGroupHeartbeat`.

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_heartbeat_request::TopicPartitions,
    },
};

use super::{
    CallFailure, Common, ConsumerProtocol, JOIN_EPOCH, MemberCall, MemberError, MemberRequest, PartitionsById,
    SentFields, Subscription, subscribed,
};
use crate::member::offsets::{code, moves_coordinator};

impl ConsumerProtocol {
    /// The time of the next heartbeat; `None` if there is none to send, or one is in flight.
    pub(super) fn heartbeat_due(&self, common: &Common) -> Option<i64> {
        let is_leaving = common.leaving.is_some() && self.is_in_group();
        if self.call.is_some() || !(common.wants_group() || is_leaving) {
            return None;
        }
        // The application must see the loss before the member rejoins.
        if !self.is_in_group() && !common.owned.is_empty() {
            return None;
        }
        let is_urgent = !self.is_in_group() || self.must_acknowledge;
        let due = if is_urgent { i64::MIN } else { self.heartbeat_at };
        Some(due.max(self.retry_at))
    }

    pub(super) fn next_heartbeat(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        if self.heartbeat_due(common)? > now_ms {
            return None;
        }
        let request = self.heartbeat_request(common);
        let reports_owned = request.topic_partitions.is_some();
        let call = common.call(MemberRequest::ConsumerHeartbeat(request), common.request_timeout_ms);
        self.call = Some(call.id);
        self.call_reports_owned = reports_owned;
        self.must_acknowledge = false;
        self.heartbeat_at = now_ms.saturating_add(self.heartbeat_interval_ms);
        self.retry_at = i64::MIN;
        Some(call)
    }

    /// All fields if the broker may not know them, else only those that changed.
    fn heartbeat_request(&mut self, common: &Common) -> ConsumerGroupHeartbeatRequest {
        let (topics, pattern) = match (&common.subscription, &self.sent_fields) {
            // While the application revokes in order to leave, the subscription stays.
            (None, Some(sent)) => (sent.topics.clone(), sent.pattern.clone()),
            _ => subscribed(common),
        };
        let now = SentFields {
            topics,
            pattern,
            owned: self.claimed(),
        };
        let sent = self.sent_fields.as_ref();
        let is_new = |differs: fn(&SentFields, &SentFields) -> bool| sent.is_none_or(|sent| differs(sent, &now));
        // Others wait for partitions that were revoked. New partitions are acknowledged when the application has got
        // them.
        let reports_owned = self.must_acknowledge || is_new(|sent, now| !contains(&now.owned, &sent.owned));
        let request = ConsumerGroupHeartbeatRequest {
            group_id: common.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch: self.epoch,
            instance_id: common.instance_id.clone(),
            rack_id: common.rack.clone().filter(|_| sent.is_none()),
            rebalance_timeout_ms: if sent.is_none() {
                common.rebalance_timeout_ms
            } else {
                -1
            },
            subscribed_topic_names: is_new(|sent, now| sent.topics != now.topics)
                .then(|| now.topics.iter().cloned().collect()),
            subscribed_topic_regex: now
                .pattern
                .clone()
                .filter(|_| is_new(|sent, now| sent.pattern != now.pattern)),
            server_assignor: self.remote_assignor.clone().filter(|_| sent.is_none()),
            topic_partitions: reports_owned.then(|| by_topic(&now.owned)),
            ..Default::default()
        };
        self.sent_fields = Some(now);
        request
    }

    pub(super) fn heartbeat_failed(&mut self, common: &mut Common, now_ms: i64, failure: CallFailure) {
        if let CallFailure::Unsupported { .. } = failure {
            return self.fail(common, unsupported(common));
        }
        self.retry(common, now_ms);
    }

    /// The state at the broker is uncertain: all fields are sent again.
    fn retry(&mut self, common: &mut Common, now_ms: i64) {
        self.sent_fields = None;
        self.retry_at = now_ms.saturating_add(common.next_backoff());
        self.heartbeat_at = self.retry_at;
    }

    pub(super) fn handle_heartbeat_response(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        response: &ConsumerGroupHeartbeatResponse,
    ) {
        let error = code(response.error_code);
        match error {
            ErrorCode::None => self.handle_heartbeat_success(common, now_ms, response),
            // No longer a member. The group is not found if it was deleted meanwhile, or has only classic members by
            // now.
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => self.reset(),
            ErrorCode::GroupIdNotFound if self.epoch > JOIN_EPOCH => self.reset(),
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable | ErrorCode::CoordinatorLoadInProgress => {
                common.coordinator_moved |= moves_coordinator(error);
                self.retry(common, now_ms);
            }
            // The topics may become readable; the member stays in the group.
            ErrorCode::TopicAuthorizationFailed => {
                common.report(refused(error, response));
                self.retry(common, now_ms);
            }
            ErrorCode::UnreleasedInstanceId => {
                let instance_id = common.instance_id.clone().unwrap_or_default();
                self.fail(common, MemberError::UnreleasedInstance { instance_id });
            }
            ErrorCode::FencedInstanceId => {
                let instance_id = common.instance_id.clone().unwrap_or_default();
                self.fail(common, MemberError::FencedInstance { instance_id });
            }
            ErrorCode::UnsupportedVersion => self.fail(common, unsupported(common)),
            error => self.fail(common, refused(error, response)),
        }
    }

    fn fail(&mut self, common: &mut Common, error: MemberError) {
        self.reset();
        common.fail(error);
    }

    fn handle_heartbeat_success(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        response: &ConsumerGroupHeartbeatResponse,
    ) {
        common.backoff.reset();
        if let Some(member_id) = response.member_id.as_ref().filter(|id| **id != self.member_id) {
            self.member_id = ByteString::from(&**member_id);
        }
        self.epoch = response.member_epoch;
        let interval = i64::from(response.heartbeat_interval_ms);
        self.heartbeat_at = self
            .heartbeat_at
            .saturating_sub(self.heartbeat_interval_ms)
            .saturating_add(interval);
        self.heartbeat_at = self.heartbeat_at.clamp(now_ms, now_ms.saturating_add(interval.max(0)));
        self.heartbeat_interval_ms = interval;
        if let Some(assignment) = &response.assignment {
            let mut target = PartitionsById::new();
            for topic in assignment
                .topic_partitions
                .iter()
                .filter(|topic| !topic.partitions.is_empty())
            {
                target
                    .entry(topic.topic_id)
                    .or_default()
                    .extend(topic.partitions.iter().copied());
            }
            self.set_target(common, target);
        }
    }
}

fn unsupported(common: &Common) -> MemberError {
    match common.subscription {
        Some(Subscription::BrokerPattern(_)) => MemberError::PatternUnsupported,
        _ => MemberError::ConsumerProtocolUnsupported,
    }
}

fn refused(error: ErrorCode, response: &ConsumerGroupHeartbeatResponse) -> MemberError {
    MemberError::Refused {
        api: ApiKey::ConsumerGroupHeartbeat,
        error,
        message: response
            .error_message
            .as_ref()
            .map(|message| ByteString::from(&**message)),
    }
}

fn contains(all: &PartitionsById, some: &PartitionsById) -> bool {
    let mut topics = some.iter();
    topics.all(|(id, partitions)| all.get(id).is_some_and(|all| partitions.is_subset(all)))
}

fn by_topic(partitions: &PartitionsById) -> Vec<TopicPartitions> {
    let topics = partitions.iter().map(|(topic_id, partitions)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    topics.collect()
}

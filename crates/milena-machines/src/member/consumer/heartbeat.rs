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
    CallFailure, Common, ConsumerProtocol, JOINING, MemberCall, MemberError, MemberRequest, PartitionsById,
    Subscription, ToldBroker, subscribed,
};
use crate::member::offsets::{code, moves_coordinator};

impl ConsumerProtocol {
    /// When the next heartbeat is due; `None` if there is none to send, or one is under way.
    pub(super) fn due(&self, common: &Common) -> Option<i64> {
        let is_leaving = common.leaving.is_some() && self.is_in_group();
        if self.call.is_some() || !(common.wants_group() || is_leaving) {
            return None;
        }
        // What is lost is lost before we join again.
        if !self.is_in_group() && !common.owned.is_empty() {
            return None;
        }
        let is_urgent = !self.is_in_group() || self.must_acknowledge;
        let due = if is_urgent { i64::MIN } else { self.heartbeat_at };
        Some(due.max(self.retry_at))
    }

    pub(super) fn next_heartbeat(&mut self, common: &mut Common, now_ms: i64) -> Option<MemberCall> {
        if self.due(common)? > now_ms {
            return None;
        }
        let request = self.heartbeat_request(common);
        let tells_owned = request.topic_partitions.is_some();
        let call = common.call(MemberRequest::ConsumerHeartbeat(request), common.request_timeout_ms);
        self.call = Some(call.id);
        self.call_tells_owned = tells_owned;
        self.must_acknowledge = false;
        self.heartbeat_at = now_ms.saturating_add(self.heartbeat_interval_ms);
        self.retry_at = i64::MIN;
        Some(call)
    }

    /// All fields if the broker may not know them, else only what has changed.
    fn heartbeat_request(&mut self, common: &Common) -> ConsumerGroupHeartbeatRequest {
        let (topics, pattern) = match (&common.subscription, &self.told) {
            // While the application lets go, it is as before.
            (None, Some(told)) => (told.topics.clone(), told.pattern.clone()),
            _ => subscribed(common),
        };
        let now = ToldBroker {
            topics,
            pattern,
            owned: self.claimed(),
        };
        let told = self.told.as_ref();
        let is_new = |differs: fn(&ToldBroker, &ToldBroker) -> bool| told.is_none_or(|told| differs(told, &now));
        // Others wait for what we have let go of. That we have arrived is told when the application has heard of it.
        let tells_owned = self.must_acknowledge || is_new(|told, now| !contains(&now.owned, &told.owned));
        let request = ConsumerGroupHeartbeatRequest {
            group_id: common.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch: self.epoch,
            instance_id: common.instance_id.clone(),
            rack_id: common.rack.clone().filter(|_| told.is_none()),
            rebalance_timeout_ms: if told.is_none() {
                common.rebalance_timeout_ms
            } else {
                -1
            },
            subscribed_topic_names: is_new(|told, now| told.topics != now.topics)
                .then(|| now.topics.iter().cloned().collect()),
            subscribed_topic_regex: now
                .pattern
                .clone()
                .filter(|_| is_new(|told, now| told.pattern != now.pattern)),
            server_assignor: self.remote_assignor.clone().filter(|_| told.is_none()),
            topic_partitions: tells_owned.then(|| by_topic(&now.owned)),
            ..Default::default()
        };
        self.told = Some(now);
        request
    }

    pub(super) fn heartbeat_failed(&mut self, common: &mut Common, now_ms: i64, failure: CallFailure) {
        if let CallFailure::Unsupported { .. } = failure {
            return self.end(common, unsupported(common));
        }
        self.try_again(common, now_ms);
    }

    /// Nothing is certain: all is told again.
    fn try_again(&mut self, common: &mut Common, now_ms: i64) {
        self.told = None;
        self.retry_at = now_ms.saturating_add(common.next_backoff());
        self.heartbeat_at = self.retry_at;
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        response: &ConsumerGroupHeartbeatResponse,
    ) {
        let error = code(response.error_code);
        match error {
            ErrorCode::None => self.heard(common, now_ms, response),
            // We are out. The group is not found if it was dissolved without us, or has only classic members by now.
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => self.reset(),
            ErrorCode::GroupIdNotFound if self.epoch > JOINING => self.reset(),
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable | ErrorCode::CoordinatorLoadInProgress => {
                common.coordinator_moved |= moves_coordinator(error);
                self.try_again(common, now_ms);
            }
            // The topics may become readable; we stay in the group.
            ErrorCode::TopicAuthorizationFailed => {
                common.tell(refused(error, response));
                self.try_again(common, now_ms);
            }
            ErrorCode::UnreleasedInstanceId => {
                let instance_id = common.instance_id.clone().unwrap_or_default();
                self.end(common, MemberError::UnreleasedInstance { instance_id });
            }
            ErrorCode::FencedInstanceId => {
                let instance_id = common.instance_id.clone().unwrap_or_default();
                self.end(common, MemberError::FencedInstance { instance_id });
            }
            ErrorCode::UnsupportedVersion => self.end(common, unsupported(common)),
            error => self.end(common, refused(error, response)),
        }
    }

    fn end(&mut self, common: &mut Common, error: MemberError) {
        self.reset();
        common.fail(error);
    }

    fn heard(&mut self, common: &mut Common, now_ms: i64, response: &ConsumerGroupHeartbeatResponse) {
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
            self.aim(common, target);
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

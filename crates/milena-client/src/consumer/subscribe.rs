//! Subscriptions and manual assignment.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    member::{self, Leave, TopicFilter},
};

use super::{
    Consumer,
    error::{PollError, SubscribeError},
    listener::{NoListener, RebalanceListener},
    subscription::{Subscription, TopicPattern},
    wakeup::WakeupHandle,
};
use crate::{config::GroupProtocol, io};

impl Consumer {
    /// Subscribes to topics as a member of the group, which assigns the partitions. It replaces an earlier list; an
    /// empty list unsubscribes.
    ///
    /// No broker is contacted before the next `poll`. Buffered records of removed topics are not delivered.
    pub fn subscribe<T: Into<String>>(&mut self, topics: impl IntoIterator<Item = T>) -> Result<(), SubscribeError> {
        self.subscribe_with(topics, NoListener)
    }

    /// As [`subscribe`](Self::subscribe), with a rebalance listener, which replaces an earlier one at once.
    pub fn subscribe_with<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), SubscribeError> {
        let topics: BTreeSet<ByteString> = topics.into_iter().map(|topic| ByteString::from(topic.into())).collect();
        if topics.iter().any(|topic| topic.trim().is_empty()) {
            return Err(SubscribeError::EmptyTopic);
        }
        self.change_subscription(Subscription::Topics(topics))?;
        self.listener = Box::new(listener);
        Ok(())
    }

    /// Subscribes to all topics whose whole name matches a regular expression, including future ones. Topics are
    /// matched again with every metadata refresh (`metadata.max.age.ms`).
    pub fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        self.subscribe_pattern_with(pattern, NoListener)
    }

    /// As [`subscribe_pattern`](Self::subscribe_pattern), with a rebalance listener.
    pub fn subscribe_pattern_with(
        &mut self,
        pattern: &str,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), SubscribeError> {
        let pattern = TopicPattern::new(pattern)?;
        self.change_subscription(Subscription::Pattern(pattern.regex.into()))?;
        self.listener = Box::new(listener);
        Ok(())
    }

    /// Subscribes to all topics that a function selects by name, including future ones. For selections that a regular
    /// expression cannot express; see [`subscribe_pattern`](Self::subscribe_pattern).
    pub fn subscribe_matching(
        &mut self,
        is_read: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<(), SubscribeError> {
        self.subscribe_matching_with(is_read, NoListener)
    }

    /// As [`subscribe_matching`](Self::subscribe_matching), with a rebalance listener.
    pub fn subscribe_matching_with(
        &mut self,
        is_read: impl Fn(&str) -> bool + Send + Sync + 'static,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), SubscribeError> {
        self.change_subscription(Subscription::Pattern(TopicFilter::new(is_read)))?;
        self.listener = Box::new(listener);
        Ok(())
    }

    /// Subscribes with a pattern that the broker matches (RE2 syntax). Requires `group.protocol=consumer` and Kafka 4;
    /// `poll` returns the error of an invalid pattern.
    pub fn subscribe_broker_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        self.subscribe_broker_pattern_with(pattern, NoListener)
    }

    /// As [`subscribe_broker_pattern`](Self::subscribe_broker_pattern), with a rebalance listener.
    pub fn subscribe_broker_pattern_with(
        &mut self,
        pattern: &str,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), SubscribeError> {
        if !matches!(self.inner.shared.config.group_protocol, GroupProtocol::Consumer { .. }) {
            return Err(SubscribeError::NeedsConsumerProtocol);
        }
        self.change_subscription(Subscription::BrokerPattern(pattern.into()))?;
        self.listener = Box::new(listener);
        Ok(())
    }

    fn change_subscription(&mut self, next: Subscription) -> Result<(), SubscribeError> {
        let shared = &self.inner.shared;
        let now_ms = io::now_ms();
        let mut core = shared.core();
        if !core.subscription.may_become(&next) {
            return Err(SubscribeError::Exclusive);
        }
        let Some(group) = &mut core.group else {
            return Err(SubscribeError::NoGroup);
        };
        match &next {
            Subscription::Topics(topics) if topics.is_empty() => {
                group.member.leave(now_ms, Leave::Default);
            }
            Subscription::Topics(topics) => group
                .member
                .subscribe(now_ms, member::Subscription::Topics(topics.clone())),
            Subscription::BrokerPattern(pattern) => {
                group
                    .member
                    .subscribe(now_ms, member::Subscription::BrokerPattern(pattern.clone()));
            }
            // The matching topics are known after the next metadata response.
            Subscription::Pattern(_) => group.matched = None,
            Subscription::None | Subscription::Manual => {}
        }
        if let Subscription::Topics(topics) = &next {
            let gone = core
                .positions
                .assignment()
                .filter(|partition| !topics.contains(&partition.topic));
            let gone: Vec<TopicPartition> = gone.cloned().collect();
            core.positions.block(&gone, true);
        }
        core.subscription = next;
        shared.select_topics(&core);
        shared.show_metadata(&mut core, now_ms);
        shared.drive_locked(&mut core, now_ms);
        Ok(())
    }

    /// Assigns exactly these partitions, without group management. Partitions that stay assigned keep their position.
    /// With a `group.id` offsets can still be committed; an empty list unassigns all.
    pub fn assign(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Result<(), SubscribeError> {
        let partitions: BTreeSet<TopicPartition> = partitions.into_iter().collect();
        for TopicPartition { topic, partition } in &partitions {
            if topic.trim().is_empty() {
                return Err(SubscribeError::EmptyTopic);
            }
            if *partition < 0 {
                let (topic, partition) = (topic.to_string(), *partition);
                return Err(SubscribeError::NegativePartition { topic, partition });
            }
        }
        let shared = &self.inner.shared;
        let now_ms = io::now_ms();
        let mut guard = shared.core();
        let core = &mut *guard;
        if !core.subscription.may_become(&Subscription::Manual) {
            return Err(SubscribeError::Exclusive);
        }
        shared.commit_if_due(core, now_ms);
        core.subscription = if partitions.is_empty() {
            Subscription::None
        } else {
            Subscription::Manual
        };
        core.positions.assign(partitions);
        core.buffer.retain_current(&core.positions);
        if let Some(auto_commit) = core.group.as_mut().and_then(|group| group.auto_commit.as_mut()) {
            auto_commit.restart_if_off(now_ms);
        }
        shared.notice_recreated(core);
        shared.select_topics(core);
        shared.drive_locked(core, now_ms);
        Ok(())
    }

    /// The topics of the last [`subscribe`](Self::subscribe), or the known topics that match its pattern.
    pub fn subscription(&self) -> BTreeSet<String> {
        let core = self.inner.shared.core();
        let matched = core.group.as_ref().and_then(|group| group.matched.as_ref());
        let topics = match &core.subscription {
            Subscription::Topics(topics) => Some(topics),
            Subscription::Pattern(_) => matched,
            _ => None,
        };
        topics.into_iter().flatten().map(ToString::to_string).collect()
    }

    /// Drops subscription and assignment, and leaves the group. The listener is called; positions are not committed.
    pub async fn unsubscribe(&mut self) -> Result<(), PollError> {
        let outcome = self.leave_group(Leave::Default).await;
        let shared = &self.inner.shared;
        let mut guard = shared.core();
        let core = &mut *guard;
        core.subscription = Subscription::None;
        core.positions.clear();
        core.buffer.retain_current(&core.positions);
        if let Some(group) = &mut core.group {
            group.matched = None;
        }
        shared.select_topics(core);
        shared.drive_locked(core, io::now_ms());
        outcome
    }

    /// Requests a rebalance, which happens in the next calls of `poll`. No effect with `group.protocol=consumer`, where
    /// the broker decides.
    pub fn enforce_rebalance(&mut self, reason: &str) {
        let shared = &self.inner.shared;
        if matches!(shared.config.group_protocol, GroupProtocol::Consumer { .. }) {
            tracing::warn!(
                event = "rebalance_not_enforced",
                "enforce_rebalance has no effect with group.protocol=consumer: the broker decides"
            );
        }
        let mut core = shared.core();
        if let Some(group) = &mut core.group {
            group.member.enforce_rebalance(reason);
        }
        shared.drive_locked(&mut core, io::now_ms());
    }

    /// A handle with which other tasks interrupt a waiting `poll`.
    pub fn wakeup_handle(&self) -> WakeupHandle {
        self.inner.shared.wakeup.clone()
    }
}

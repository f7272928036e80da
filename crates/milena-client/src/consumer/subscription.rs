//! The subscription of a consumer, and the topics that its metadata must contain.

use std::{collections::BTreeSet, sync::Arc};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    assign::TopicLayout,
    member::{self, MemberMetadata, TopicFilter},
};
use milena_wire::{Uuid, errors::ErrorCode};
use regex::Regex;

use super::{
    error::SubscribeError,
    shared::{ConsumerCore, ConsumerShared},
};
use crate::{
    io,
    metadata::{MetadataCache, TopicSelection},
};

#[derive(Debug, Clone, Default)]
pub(crate) enum Subscription {
    #[default]
    None,
    Topics(BTreeSet<ByteString>),
    /// Matched by the client, against all topics.
    Pattern(TopicFilter),
    /// Matched by the broker.
    BrokerPattern(ByteString),
    /// Assigned by the application.
    Manual,
}

impl Subscription {
    /// Whether the subscription may change without unsubscribing first, as in Kafka.
    pub(crate) fn may_become(&self, next: &Self) -> bool {
        matches!(
            (self, next),
            (Self::None, _)
                | (Self::Topics(_), Self::Topics(_))
                | (Self::Pattern(_), Self::Pattern(_))
                | (Self::BrokerPattern(_), Self::BrokerPattern(_))
                | (Self::Manual, Self::Manual)
        )
    }
}

impl ConsumerShared {
    /// Selects the topics of the metadata.
    pub(super) fn select_topics(&self, core: &ConsumerCore) {
        let mut names = core.queried_topics.clone();
        names.extend(core.positions.assignment().map(|partition| partition.topic.clone()));
        let member = core.group.as_ref().map(|group| &group.member);
        names.extend(
            member
                .and_then(|member| member.group_topics())
                .into_iter()
                .flatten()
                .cloned(),
        );
        let selection = match &core.subscription {
            Subscription::Pattern(_) => TopicSelection::All,
            Subscription::BrokerPattern(_) => {
                let cluster = self.metadata.cache();
                let needed = member.and_then(|member| member.metadata_needed()).unwrap_or_default();
                let mut ids = needed.topic_ids;
                ids.extend(names.iter().filter_map(|name| cluster.topic_id(name)));
                TopicSelection::Ids(ids)
            }
            Subscription::Topics(topics) => {
                names.extend(topics.iter().cloned());
                TopicSelection::Topics(names)
            }
            Subscription::None | Subscription::Manual => TopicSelection::Topics(names),
        };
        self.metadata.select(selection);
    }

    /// Adds the topics of queried partitions, whose leaders must be known.
    pub(super) fn select_topics_of<'a>(&self, partitions: impl Iterator<Item = &'a TopicPartition>) {
        let cluster = self.metadata.cache();
        let unknown: Vec<ByteString> = partitions
            .filter(|partition| cluster.topic(&partition.topic).is_none())
            .map(|partition| partition.topic.clone())
            .collect();
        if unknown.is_empty() {
            return;
        }
        let mut core = self.core();
        core.queried_topics.extend(unknown);
        self.select_topics(&core);
    }

    /// Handles new metadata: patterns may match other topics, and partitions may have other leaders.
    pub(super) fn handle_metadata(self: &Arc<Self>) {
        let now_ms = io::now_ms();
        let mut core = self.core();
        self.notice_recreated(&mut core);
        self.show_metadata(&mut core, now_ms);
        self.drive_locked(&mut core, now_ms);
        drop(core);
        self.signal().notify();
    }

    /// Records the ids of assigned topics, and detects topics that were recreated.
    pub(super) fn notice_recreated(&self, core: &mut ConsumerCore) {
        let cluster = self.metadata.cache();
        let topics: BTreeSet<ByteString> = core
            .positions
            .assignment()
            .map(|partition| partition.topic.clone())
            .collect();
        core.topic_ids.retain(|topic, _| topics.contains(topic));
        for topic in topics {
            let Some(id) = cluster.topic_id(&topic) else { continue };
            let old = core.topic_ids.insert(topic.clone(), id);
            if old.is_some_and(|old| old != id) {
                tracing::warn!(event = "topic_recreated", %topic, "topic {topic} was deleted and created again; auto.offset.reset applies");
                core.positions.handle_recreated(&topic);
            }
        }
    }

    /// Passes the metadata to the machines of the group.
    pub(super) fn show_metadata(&self, core: &mut ConsumerCore, now_ms: i64) {
        let cluster = self.metadata.cache();
        let matching = match &core.subscription {
            Subscription::Pattern(filter) => Some((self.matching(&cluster, filter), filter.clone())),
            _ => None,
        };
        let gone = |(topic, _): &(&ByteString, &Uuid)| cluster.topic(topic).is_none();
        let gone: Vec<(ByteString, Uuid)> = core
            .topic_ids
            .iter()
            .filter(gone)
            .map(|(topic, id)| (topic.clone(), *id))
            .collect();
        let Some(group) = &mut core.group else { return };
        if let Some((topics, filter)) = matching
            && group.matched.as_ref() != Some(&topics)
        {
            group.matched = Some(topics.clone());
            group
                .member
                .subscribe(now_ms, member::Subscription::Matching { topics, filter });
        }
        let requested = match &core.subscription {
            Subscription::Topics(topics) => topics.clone(),
            _ => BTreeSet::new(),
        };
        let shown = Arc::new(member_metadata(&cluster, &requested));
        group.member.handle_metadata(now_ms, Arc::clone(&shown));
        group.offsets.handle_metadata(with_gone(shown, gone));
    }

    fn matching(&self, cluster: &MetadataCache, filter: &TopicFilter) -> BTreeSet<ByteString> {
        let hidden = self.config.exclude_internal_topics;
        cluster
            .topics()
            .filter(|topic| !(hidden && topic.internal) && filter.matches(&topic.name))
            .map(|topic| topic.name.clone())
            .collect()
    }
}

fn member_metadata(cluster: &MetadataCache, requested: &BTreeSet<ByteString>) -> MemberMetadata {
    let mut shown = MemberMetadata::default();
    for topic in cluster.topics() {
        let racks = cluster.replica_racks(&topic.name).unwrap_or_default();
        shown.insert(topic.name.clone(), topic.id, TopicLayout { racks });
    }
    for name in requested {
        // A missing topic is passed as empty, so that the group does not wait for it.
        if cluster.topic_error(name) == Some(ErrorCode::UnknownTopicOrPartition) {
            shown.insert(name.clone(), None, TopicLayout::without_racks(0));
        }
    }
    shown
}

/// Adds deleted topics. Their offsets are committed by id or not at all, because a topic of the same name may be
/// created.
fn with_gone(mut shown: Arc<MemberMetadata>, gone: Vec<(ByteString, Uuid)>) -> Arc<MemberMetadata> {
    for (topic, id) in gone {
        Arc::make_mut(&mut shown).insert(topic, Some(id), TopicLayout::without_racks(0));
    }
    shown
}

/// A regular expression for topic names, as in [`Consumer::subscribe_pattern`](super::Consumer::subscribe_pattern). It
/// matches whole names.
#[derive(Debug, Clone)]
pub struct TopicPattern {
    pub(super) regex: Regex,
}

impl TopicPattern {
    pub fn new(pattern: &str) -> Result<Self, SubscribeError> {
        match Regex::new(&format!("^(?:{pattern})$")) {
            Ok(regex) => Ok(Self { regex }),
            Err(error) => Err(SubscribeError::BadPattern {
                pattern: pattern.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    pub fn matches(&self, topic: &str) -> bool {
        self.regex.is_match(topic)
    }
}

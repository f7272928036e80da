//! Deletion of topics.

use std::sync::Arc;

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

use super::{Node, Refusal};
use crate::{
    metadata_log::Change,
    quotas::MutationPermits,
    topics::{Topic, is_internal},
};

/// The most ids of deleted topics that are remembered while the broker runs.
const DELETED_MAX: usize = 100_000;

impl Node {
    /// Deletes topics, durably when this returns. All of them together cost one sync of the metadata.
    pub(crate) fn delete_topics(
        &self,
        names: &[ByteString],
        permits: &mut MutationPermits<'_>,
    ) -> Vec<Result<(), Refusal>> {
        let mut metadata = self.metadata();
        let mut leaving: Vec<Arc<Topic>> = vec![];
        let mut outcomes = Vec::with_capacity(names.len());
        for name in names {
            let is_named_before = leaving.iter().any(|topic| topic.name == *name);
            let found = match is_named_before {
                true => Err(Refusal::no_topic(name)),
                false => self.find_deletable(name),
            };
            let permitted = found.and_then(|topic| permits.take(topic.partitions.len()).map(|()| topic));
            outcomes.push(match permitted {
                Ok(topic) => {
                    leaving.push(topic);
                    Ok(())
                }
                Err(refusal) => Err(refusal),
            });
        }
        if leaving.is_empty() {
            return outcomes;
        }
        let changes = leaving.iter().map(|topic| Change::TopicDeleted {
            name: topic.name.to_string(),
        });
        if let Err(error) = metadata.append(changes.collect()) {
            let refusal = Refusal::from(error);
            return outcomes
                .into_iter()
                .map(|outcome| outcome.and_then(|()| Err(refusal.clone())))
                .collect();
        }
        {
            let deleted = &mut self.topic_ids().deleted;
            deleted.extend(leaving.iter().map(|topic| topic.id));
            while deleted.len() > DELETED_MAX {
                deleted.pop_first();
            }
        }
        {
            let mut topics = self.topics_mut();
            for topic in &leaving {
                topics.remove(&topic.name);
            }
        }
        for topic in &leaving {
            self.remove_files(topic);
        }
        // A new topic of the same name must not begin at the checkpoints of the old one.
        if let Err(error) = self.write_checkpoints() {
            tracing::error!(event = "checkpoints_not_written", %error, "cannot write the checkpoints");
        }
        outcomes
    }

    fn find_deletable(&self, name: &str) -> Result<Arc<Topic>, Refusal> {
        if !self.config().delete_topic_enable {
            let reason = "delete.topic.enable is false";
            return Err(Refusal::new(ErrorCode::TopicDeletionDisabled, reason));
        }
        if is_internal(name) {
            let reason = format!("{name} has the state of the coordinators; it cannot be deleted");
            return Err(Refusal::new(ErrorCode::InvalidTopicException, reason));
        }
        let topic = self.topics().by_name(name).cloned();
        topic.ok_or_else(|| Refusal::no_topic(name))
    }

    fn remove_files(&self, topic: &Topic) {
        for partition in &topic.partitions {
            partition.retire();
            let (disk, dir) = self.place_of(&topic.name, partition.index, partition.durability());
            let there = disk.exists(&dir);
            let removed = there.and_then(|there| if there { disk.remove_dir(&dir) } else { Ok(()) });
            if let Err(error) = removed {
                tracing::warn!(
                    event = "topic_files_not_removed",
                    %error,
                    dir = %dir.display(),
                    "cannot remove the files of a deleted topic"
                );
            }
        }
    }
}

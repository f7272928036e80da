//! Topics and partitions on the command line of group commands.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use milena_client::{admin::Admin, consumer::TopicPartition};

use crate::output::split;

/// A topic, or some of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scope {
    topic: String,
    /// Empty means all.
    partitions: Vec<i32>,
}

impl Scope {
    pub(super) fn contains(&self, partition: &TopicPartition) -> bool {
        let is_named = self.partitions.is_empty() || self.partitions.contains(&partition.partition);
        *self.topic == *partition.topic && is_named
    }
}

pub(super) fn parse(text: &str) -> Result<Scope, String> {
    let Some((topic, numbers)) = text.split_once(':') else {
        return Ok(Scope {
            topic: text.to_owned(),
            partitions: vec![],
        });
    };
    let numbers: Option<Vec<i32>> = numbers.split(',').map(|number| number.trim().parse().ok()).collect();
    let partitions = numbers.ok_or("expected a topic, or a topic and its partitions, as in letters:0,1")?;
    Ok(Scope {
        topic: topic.to_owned(),
        partitions,
    })
}

/// The partitions with a committed offset of the group.
pub(super) async fn committed(admin: &Admin, group: &str) -> Result<BTreeSet<TopicPartition>> {
    let (committed, problems) = split(admin.list_group_offsets([group]).await);
    problems?;
    let offsets = committed.into_iter().flat_map(|(_, offsets)| offsets.into_keys());
    Ok(offsets.collect())
}

/// The partitions in `scopes`, or all with a committed offset if there are none.
pub(super) async fn partitions(admin: &Admin, group: &str, scopes: &[Scope]) -> Result<BTreeSet<TopicPartition>> {
    if scopes.is_empty() {
        let committed = committed(admin, group).await?;
        ensure!(
            !committed.is_empty(),
            "group {group} has no committed offsets; name a topic with -t to set its first ones"
        );
        return Ok(committed);
    }
    let names: BTreeSet<&str> = scopes.iter().map(|scope| scope.topic.as_str()).collect();
    let (described, problems) = split(admin.describe_topics(names).await);
    problems?;
    let mut partitions = BTreeSet::new();
    for (name, topic) in described {
        for scope in scopes.iter().filter(|scope| *scope.topic == *name) {
            let all = topic.partitions.iter().map(|info| info.partition.partition);
            let wanted: Vec<i32> = match scope.partitions.is_empty() {
                true => all.collect(),
                false => scope.partitions.clone(),
            };
            let wanted = wanted.into_iter();
            partitions.extend(wanted.map(|number| TopicPartition::new(name.clone(), number)));
        }
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_stand_behind_the_topic() {
        let scoped = |topic: &str, partitions: &[i32]| Scope {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        assert_eq!(parse("letters"), Ok(scoped("letters", &[])));
        assert_eq!(parse("letters:0,2"), Ok(scoped("letters", &[0, 2])));
        for wrong in ["letters:", "letters:a", "letters:1,"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

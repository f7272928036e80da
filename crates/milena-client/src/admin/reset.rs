//! Reset of committed offsets.

use std::{collections::BTreeMap, fmt};

use bytestring::ByteString;
use milena_machines::{TopicPartition, member::OffsetAndMetadata};

use super::{Admin, AdminError, OffsetSpec, Results};

/// The offset to reset a group to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetTarget {
    /// The start of the partition.
    Earliest,
    /// The end of the partition.
    Latest,
    /// The first record that is not older, in milliseconds since the epoch; the end without one.
    Timestamp(i64),
    /// This offset, or the nearest that exists.
    Offset(i64),
    /// The committed offset plus a number of records, or minus if negative; within the partition.
    ShiftBy(i64),
    /// The committed offset, or the end without one.
    Current,
}

impl fmt::Display for OffsetTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("the beginning"),
            Self::Latest => f.write_str("the end"),
            Self::Timestamp(timestamp) => write!(f, "the time {timestamp}"),
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::ShiftBy(count) => write!(f, "{count:+} records"),
            Self::Current => f.write_str("the committed offset"),
        }
    }
}

/// The old and the new offset of a group in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedOffset {
    /// `None` without a committed offset.
    pub from: Option<i64>,
    pub to: i64,
    /// The requested offset, if it does not exist and `to` is the nearest.
    pub clamped: Option<i64>,
}

impl Admin {
    /// Returns the effect of [`reset_group_offsets`](Self::reset_group_offsets) without resetting.
    pub async fn plan_group_offsets(
        &self,
        group: impl Into<ByteString>,
        partitions: impl IntoIterator<Item = TopicPartition>,
        target: OffsetTarget,
    ) -> Result<Results<TopicPartition, PlannedOffset>, AdminError> {
        let targets = partitions.into_iter().map(|partition| (partition, target));
        self.plan_group_offsets_to(group, targets).await
    }

    /// The same, with a target for each partition.
    pub async fn plan_group_offsets_to(
        &self,
        group: impl Into<ByteString>,
        targets: impl IntoIterator<Item = (TopicPartition, OffsetTarget)>,
    ) -> Result<Results<TopicPartition, PlannedOffset>, AdminError> {
        let group = group.into();
        let targets: BTreeMap<TopicPartition, OffsetTarget> = targets.into_iter().collect();
        let committed = self.list_group_offsets([group.clone()]).await.remove(&group);
        let committed = committed.unwrap_or_else(|| Ok(BTreeMap::new()))?;
        let all = |spec| targets.keys().map(move |partition| (partition.clone(), spec));
        let earliest = self.ends(all(OffsetSpec::Earliest)).await;
        let latest = self.ends(all(OffsetSpec::Latest)).await;
        let times = targets.iter().filter_map(|(partition, target)| match target {
            OffsetTarget::Timestamp(timestamp) => Some((partition.clone(), OffsetSpec::Timestamp(*timestamp))),
            _ => None,
        });
        let by_time = self.ends(times).await;
        let plan = |(partition, target): (TopicPartition, OffsetTarget)| {
            let from = committed.get(&partition).map(|committed| committed.offset);
            let offsets = PartitionOffsets {
                from,
                by_time: by_time.get(&partition),
                earliest: earliest.get(&partition),
                latest: latest.get(&partition),
            };
            let planned = offsets.resolve(target, &group, &partition);
            (partition, planned)
        };
        Ok(targets.into_iter().map(plan).collect())
    }

    /// Resets the committed offsets of a group without members in these partitions. Those of other partitions stay.
    pub async fn reset_group_offsets(
        &self,
        group: impl Into<ByteString>,
        partitions: impl IntoIterator<Item = TopicPartition>,
        target: OffsetTarget,
    ) -> Result<Results<TopicPartition, PlannedOffset>, AdminError> {
        let targets = partitions.into_iter().map(|partition| (partition, target));
        self.reset_group_offsets_to(group, targets).await
    }

    /// The same, with a target for each partition.
    pub async fn reset_group_offsets_to(
        &self,
        group: impl Into<ByteString>,
        targets: impl IntoIterator<Item = (TopicPartition, OffsetTarget)>,
    ) -> Result<Results<TopicPartition, PlannedOffset>, AdminError> {
        let group = group.into();
        self.check_is_inactive(&group).await?;
        let mut planned = self.plan_group_offsets_to(group.clone(), targets).await?;
        let offsets = planned.iter().filter_map(|(partition, planned)| {
            let offset = OffsetAndMetadata {
                offset: planned.as_ref().ok()?.to,
                leader_epoch: None,
                metadata: ByteString::new(),
            };
            Some((partition.clone(), offset))
        });
        let offsets: Vec<_> = offsets.collect();
        for (partition, committed) in self.alter_group_offsets(group, offsets).await {
            if let Err(error) = committed {
                planned.insert(partition, Err(error));
            }
        }
        Ok(planned)
    }

    /// Refuses a group with members, which would overwrite the offsets.
    async fn check_is_inactive(&self, group: &ByteString) -> Result<(), AdminError> {
        let described = self.describe_groups([group.clone()]).await.remove(group);
        match described {
            Some(Ok(described)) if !described.members.is_empty() => Err(AdminError::invalid(
                format!("group {group}"),
                match described.members.len() {
                    1 => format!(
                        "it is {} and has 1 member, which would overwrite the offsets; stop it first",
                        described.state
                    ),
                    count => format!(
                        "it is {} and has {count} members, which would overwrite the offsets; stop them first",
                        described.state
                    ),
                },
            )),
            // A group that does not exist yet can be given initial offsets.
            Some(Err(error)) if error.code() != Some(milena_wire::errors::ErrorCode::GroupIdNotFound) => Err(error),
            _ => Ok(()),
        }
    }

    /// One offset of each partition; `None` without such a record.
    async fn ends(
        &self,
        asked: impl Iterator<Item = (TopicPartition, OffsetSpec)>,
    ) -> Results<TopicPartition, Option<i64>> {
        let listed = self.list_offsets(asked).await.into_iter();
        let listed =
            listed.map(|(partition, listed)| (partition, listed.map(|listed| listed.map(|found| found.offset))));
        listed.collect()
    }
}

/// The offsets of a partition.
struct PartitionOffsets<'a> {
    from: Option<i64>,
    earliest: Option<&'a Result<Option<i64>, AdminError>>,
    latest: Option<&'a Result<Option<i64>, AdminError>>,
    by_time: Option<&'a Result<Option<i64>, AdminError>>,
}

impl PartitionOffsets<'_> {
    fn resolve(
        &self,
        target: OffsetTarget,
        group: &str,
        partition: &TopicPartition,
    ) -> Result<PlannedOffset, AdminError> {
        let offset_of = |found: Option<&Result<Option<i64>, AdminError>>| match found {
            Some(found) => found.clone(),
            None => Ok(None),
        };
        let earliest = offset_of(self.earliest)?.unwrap_or(0);
        let latest = offset_of(self.latest)?.unwrap_or(earliest);
        let wanted = match target {
            OffsetTarget::Earliest => earliest,
            OffsetTarget::Latest => latest,
            OffsetTarget::Timestamp(_) => offset_of(self.by_time)?.unwrap_or(latest),
            OffsetTarget::Offset(offset) => offset,
            OffsetTarget::Current => self.from.unwrap_or(latest),
            OffsetTarget::ShiftBy(count) => match self.from {
                Some(from) => from.saturating_add(count),
                None => {
                    return Err(AdminError::invalid(
                        format!("offset of {partition}"),
                        format!("group {group} has no committed offset to shift; name another target"),
                    ));
                }
            },
        };
        let to = wanted.min(latest).max(earliest);
        Ok(PlannedOffset {
            from: self.from,
            to,
            clamped: Some(wanted).filter(|wanted| *wanted != to),
        })
    }
}

//! The offset range of each partition of a replay, and how it survives a restart.
//!
//! The range is determined once and committed for the group of the replay before a record is read: the begin as the offset,
//! the end in the metadata. Every later commit repeats the end, in front of the map of the scheduler. So a replay that is
//! started again has the same end, whatever was written meanwhile. A periodic replay moves the ends each time that it
//! starts.

use std::collections::{BTreeMap, BTreeSet};

use milena_client::consumer::{Consumer, OffsetAndMetadata, OffsetsError, TopicPartition};
use milena_machines::app::CommittedOffset;

use crate::{
    error::StartError,
    replay::{Replay, ReplayFrom, ReplayTo, UnfinishedReason},
};

/// The mark of an end in the metadata of a commit. It is persisted, so it never changes.
const MARK: &str = "R1:";
/// The longest mark: with an offset and a space.
pub(super) const MARK_CHARS_MAX: usize = MARK.len() + 19 + 1;

/// The ranges of partitions with records left.
pub(crate) type ReplayRanges = BTreeMap<TopicPartition, ReplayRange>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplayRange {
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// The commit of an earlier run.
    pub(super) committed: Option<CommittedOffset>,
    /// The reason why it cannot be read at all.
    pub(super) error: Option<UnfinishedReason>,
}

/// The metadata of a commit: the end of the partition, and the commit map.
pub(super) fn mark(end: i64, map: &str) -> String {
    if map.is_empty() {
        format!("{MARK}{end}")
    } else {
        format!("{MARK}{end} {map}")
    }
}

/// The end and the commit map of metadata. Without a mark another client has committed.
fn unmark(metadata: &str) -> (Option<i64>, &str) {
    let marked = metadata.strip_prefix(MARK).and_then(|rest| {
        let (end, map) = rest.split_once(' ').unwrap_or((rest, ""));
        Some((end.parse().ok()?, map))
    });
    marked.map_or((None, metadata), |(end, map)| (Some(end), map))
}

/// Determines the ranges and commits them.
pub(super) async fn find(
    consumer: &mut Consumer,
    group: &str,
    topics: &BTreeSet<String>,
    replay: &Replay,
) -> Result<ReplayRanges, StartError> {
    let mut partitions = vec![];
    for topic in topics {
        let found = consumer
            .partitions_for(topic)
            .await
            .map_err(|error| StartError::Replay(error.to_string()))?;
        partitions.extend(found.into_iter().map(|info| info.partition));
    }
    let unknown = |error: OffsetsError| StartError::Replay(error.to_string());
    let log_ends = consumer.end_offsets(&partitions).await.map_err(unknown)?;
    let wanted = wanted(consumer, &partitions, &log_ends, replay)
        .await
        .map_err(unknown)?;
    let mut committed = consumer.committed(&partitions).await.map_err(unknown)?;
    let mut ranges = ReplayRanges::new();
    let mut new = BTreeMap::new();
    for (partition, (begin, end)) in wanted {
        let log_end = log_ends.get(&partition).copied().unwrap_or(0);
        let (range, is_marked) = range((begin, end), committed.remove(&partition), log_end, replay.is_periodic);
        // A periodic replay commits each time, so that the offsets of its group do not expire while nothing is written.
        if !is_marked || replay.is_periodic {
            let map = range.committed.as_ref().map_or("", |committed| &committed.metadata);
            let offset = OffsetAndMetadata {
                offset: range.begin,
                leader_epoch: None,
                metadata: mark(range.end, map).into(),
            };
            new.insert(partition.clone(), offset);
        }
        // A topic that was deleted and created again would be skipped silently until it is as long as the old one.
        let is_shorter = replay.is_periodic && range.error.is_some();
        if range.begin < range.end || is_shorter {
            ranges.insert(partition, range);
        }
    }
    if !new.is_empty() {
        let stored = consumer.commit_offsets(new).await;
        stored.map_err(|error| StartError::ReplayCommit {
            group: group.to_owned(),
            error,
        })?;
    }
    Ok(ranges)
}

/// The range that is left of a partition, and whether its end is committed already.
fn range(
    (begin, end): (i64, i64),
    committed: Option<OffsetAndMetadata>,
    log_end: i64,
    is_periodic: bool,
) -> (ReplayRange, bool) {
    let Some(committed) = committed else {
        // An empty range stays empty, also when records arrive.
        let begin = begin.min(end);
        let range = ReplayRange {
            begin,
            end,
            committed: None,
            error: None,
        };
        return (range, false);
    };
    let (marked, map) = unmark(&committed.metadata);
    let end = match marked {
        Some(marked) if is_periodic => marked.max(end),
        Some(marked) => marked,
        None => end,
    };
    let range = ReplayRange {
        begin: committed.offset,
        end,
        committed: Some(CommittedOffset {
            offset: committed.offset,
            metadata: map.to_owned(),
        }),
        error: (log_end < end).then_some(UnfinishedReason::Shorter { log_end }),
    };
    (range, marked.is_some())
}

/// The range that the replay asks for in each partition, by the current offsets.
async fn wanted(
    consumer: &mut Consumer,
    partitions: &[TopicPartition],
    log_ends: &BTreeMap<TopicPartition, i64>,
    replay: &Replay,
) -> Result<BTreeMap<TopicPartition, (i64, i64)>, OffsetsError> {
    let mut ends = log_ends.clone();
    match &replay.to {
        ReplayTo::End => {}
        ReplayTo::Time(ms) => lower(&mut ends, &at_time(consumer, partitions, *ms).await?),
        ReplayTo::Offsets(offsets) => lower(&mut ends, offsets),
    }
    let begins = match &replay.from {
        ReplayFrom::Beginning => consumer.beginning_offsets(partitions).await?,
        ReplayFrom::Offsets(offsets) => offsets.clone(),
        ReplayFrom::Time(ms) => {
            // Without a record of that time yet, the range is empty.
            let mut begins = log_ends.clone();
            begins.extend(at_time(consumer, partitions, *ms).await?);
            begins
        }
    };
    let both = begins.into_iter().filter_map(|(partition, begin)| {
        let end = *ends.get(&partition)?;
        Some((partition, (begin, end)))
    });
    Ok(both.collect())
}

async fn at_time(
    consumer: &mut Consumer,
    partitions: &[TopicPartition],
    ms: i64,
) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
    let times = partitions.iter().map(|partition| (partition.clone(), ms));
    let found = consumer.offsets_for_times(times).await?;
    Ok(found
        .into_iter()
        .map(|(partition, found)| (partition, found.offset))
        .collect())
}

/// Lowers ends, never raises them: records that arrived after the ends were read are not part of the replay.
fn lower(ends: &mut BTreeMap<TopicPartition, i64>, wanted: &BTreeMap<TopicPartition, i64>) {
    for (partition, end) in ends {
        *end = wanted.get(partition).map_or(*end, |wanted| (*end).min(*wanted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(offset: i64, metadata: &str) -> Option<OffsetAndMetadata> {
        Some(OffsetAndMetadata {
            offset,
            leader_epoch: None,
            metadata: metadata.to_owned().into(),
        })
    }

    #[test]
    fn what_is_marked_is_found_again() {
        assert_eq!(unmark(&mark(17, "")), (Some(17), ""));
        assert_eq!(unmark(&mark(i64::MAX, "M1:AAAA")), (Some(i64::MAX), "M1:AAAA"));
        assert_eq!(mark(i64::MAX, "").len() + 1, MARK_CHARS_MAX);
        for foreign in ["", "M1:AAAA", "R1:", "R1:x", "R1:1x M1:AAAA", "R2:17"] {
            assert_eq!(unmark(foreign), (None, foreign));
        }
    }

    #[test]
    fn the_end_of_the_first_run_counts() {
        let (first, is_marked) = range((0, 10), None, 10, false);
        assert_eq!((first.begin, first.end, is_marked), (0, 10, false));
        let (second, is_marked) = range((0, 25), committed(4, "R1:10 M1:AAAA"), 25, false);
        assert_eq!((second.begin, second.end, is_marked), (4, 10, true));
        assert_eq!(second.committed.unwrap().metadata, "M1:AAAA");
        assert_eq!(second.error, None);
    }

    #[test]
    fn an_offset_that_a_tool_has_set_is_where_it_begins_and_the_end_is_found_anew() {
        let (moved, is_marked) = range((0, 25), committed(4, ""), 25, false);
        assert_eq!((moved.begin, moved.end, is_marked), (4, 25, false));
    }

    #[test]
    fn what_is_empty_is_remembered_as_empty() {
        let (empty, _) = range((30, 25), None, 25, false);
        assert_eq!((empty.begin, empty.end), (25, 25));
    }

    #[test]
    fn a_topic_that_was_made_anew_has_not_what_is_to_be_read() {
        let (shorter, _) = range((0, 3), committed(4, "R1:10"), 3, false);
        assert_eq!(shorter.error, Some(UnfinishedReason::Shorter { log_end: 3 }));
    }

    #[test]
    fn a_periodic_one_goes_on_to_the_end_of_now() {
        let (next, _) = range((0, 25), committed(10, "R1:10"), 25, true);
        assert_eq!((next.begin, next.end), (10, 25));
        let (rest, _) = range((0, 25), committed(4, "R1:10 M1:AAAA"), 25, true);
        assert_eq!((rest.begin, rest.end), (4, 25));
        assert_eq!(rest.committed.unwrap().metadata, "M1:AAAA");
        let (nothing, _) = range((0, 10), committed(10, "R1:10"), 10, true);
        assert_eq!((nothing.begin, nothing.end), (10, 10));
        let (anew, _) = range((0, 3), committed(10, "R1:10"), 3, true);
        assert_eq!(anew.error, Some(UnfinishedReason::Shorter { log_end: 3 }));
    }
}

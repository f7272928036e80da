//! Start positions of `milena consume`.

use anyhow::{Result, ensure};
use milena_client::consumer::{ListenerError, Position, RebalanceConsumer, RebalanceListener, TopicPartition};

use crate::time::parse_instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartPosition {
    Earliest,
    Latest,
    Offset(i64),
    /// N offsets after the beginning of each partition.
    FromBeginning(i64),
    /// N offsets before the end of each partition.
    BeforeEnd(i64),
    /// The first record at or after this timestamp.
    Time(i64),
}

/// A value of `-o`: a start position, or the output format, which the admin commands have under the same letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OffsetArgument {
    Position(StartPosition),
    Json,
}

pub(super) fn parse(text: &str) -> Result<OffsetArgument, String> {
    let count = |text: &str| text.parse::<i64>().ok().filter(|count| *count >= 0);
    let start = match text {
        "json" => return Ok(OffsetArgument::Json),
        "start" | "beginning" | "earliest" => Some(StartPosition::Earliest),
        "end" | "latest" => Some(StartPosition::Latest),
        _ => match (text.get(..1), text.get(1..).unwrap_or_default(), text.split_once(':')) {
            (Some("+"), after, _) => count(after).map(StartPosition::FromBeginning),
            (Some("-"), before, _) => count(before).map(StartPosition::BeforeEnd),
            (Some("@"), time, _) => parse_instant(time).map(StartPosition::Time),
            (_, _, Some(("offset", offset))) => count(offset).map(StartPosition::Offset),
            (_, _, Some(("time", time))) => parse_instant(time).map(StartPosition::Time),
            _ => count(text).map(StartPosition::Offset),
        },
    };
    start.map(OffsetArgument::Position).ok_or_else(|| {
        "expected start, end, an offset, +N (after the start), -N (before the end), or a time such as \
         @1700000000000, @2026-07-01T08:00:00Z or @-1h"
            .to_owned()
    })
}

impl StartPosition {
    /// Seeks partitions to the start position. Partitions with a committed offset stay there.
    pub(super) async fn seek(self, consumer: &mut RebalanceConsumer, partitions: &[TopicPartition]) -> Result<()> {
        let mut partitions = partitions.to_vec();
        if consumer.config().group_id.is_some() {
            let committed = consumer.committed(&partitions).await?;
            partitions.retain(|partition| !committed.contains_key(partition));
        }
        match self {
            Self::Earliest => consumer.seek_to_beginning(&partitions)?,
            Self::Latest => consumer.seek_to_end(&partitions)?,
            Self::Offset(offset) => seek_to_offset(consumer, &partitions, offset).await?,
            Self::FromBeginning(count) => {
                let ends = consumer.end_offsets(&partitions).await?;
                for (partition, start) in consumer.beginning_offsets(&partitions).await? {
                    let end = ends.get(&partition).copied().unwrap_or(start);
                    consumer.seek(&partition, start.saturating_add(count).min(end))?;
                }
            }
            Self::BeforeEnd(count) => {
                let starts = consumer.beginning_offsets(&partitions).await?;
                for (partition, end) in consumer.end_offsets(&partitions).await? {
                    let start = starts.get(&partition).copied().unwrap_or(0);
                    consumer.seek(&partition, end.saturating_sub(count).max(start))?;
                }
            }
            Self::Time(millis) => seek_to_time(consumer, &partitions, millis).await?,
        }
        Ok(())
    }
}

async fn seek_to_offset(consumer: &mut RebalanceConsumer, partitions: &[TopicPartition], offset: i64) -> Result<()> {
    let beginnings = consumer.beginning_offsets(partitions).await?;
    let ends = consumer.end_offsets(partitions).await?;
    for partition in partitions {
        if let (Some(beginning), Some(end)) = (beginnings.get(partition), ends.get(partition)) {
            ensure!(
                (*beginning..=*end).contains(&offset),
                "{partition} has no offset {offset}: its offsets start at {beginning} and end before {end}; choose \
                 another offset, or other partitions with -p"
            );
        }
        consumer.seek(partition, offset)?;
    }
    Ok(())
}

async fn seek_to_time(consumer: &mut RebalanceConsumer, partitions: &[TopicPartition], millis: i64) -> Result<()> {
    let times = partitions.iter().map(|partition| (partition.clone(), millis));
    let found = consumer.offsets_for_times(times).await?;
    for partition in partitions {
        match found.get(partition) {
            Some(found) => {
                let position = Position {
                    offset: found.offset,
                    epoch: found.leader_epoch,
                };
                consumer.seek_position(partition, position)?;
            }
            // All records are older.
            None => consumer.seek_to_end([partition])?,
        }
    }
    Ok(())
}

/// In a group, each partition is positioned when it is assigned.
impl RebalanceListener for StartPosition {
    async fn assigned(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        Ok(self.seek(consumer, partitions).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_begin_are_understood() {
        for (text, start) in [
            ("start", StartPosition::Earliest),
            ("beginning", StartPosition::Earliest),
            ("earliest", StartPosition::Earliest),
            ("end", StartPosition::Latest),
            ("latest", StartPosition::Latest),
            ("7", StartPosition::Offset(7)),
            ("offset:7", StartPosition::Offset(7)),
            ("+7", StartPosition::FromBeginning(7)),
            ("-7", StartPosition::BeforeEnd(7)),
            ("@1700000000000", StartPosition::Time(1_700_000_000_000)),
            ("@1970-01-02", StartPosition::Time(86_400_000)),
            ("time:1700000000000", StartPosition::Time(1_700_000_000_000)),
        ] {
            assert_eq!(parse(text), Ok(OffsetArgument::Position(start)), "{text}");
        }
        assert_eq!(parse("json"), Ok(OffsetArgument::Json));
        for wrong in [
            "",
            "first",
            "offset",
            "offset:-1",
            "+",
            "-",
            "--5",
            "+-5",
            "@",
            "@soon",
            "time:",
            "time:08:00",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! Where reading begins.

use anyhow::{Result, ensure};
use milena_client::consumer::{ListenerError, Position, RebalanceConsumer, RebalanceListener, TopicPartition};

use crate::time::parse_instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Earliest,
    Latest,
    Offset(i64),
    /// A number of offsets after the beginning of each partition.
    FromBeginning(i64),
    /// A number of offsets before the end of each partition.
    BeforeEnd(i64),
    /// The first record that is not older than so many milliseconds since 1970.
    Time(i64),
}

/// A value of `-o`: a place, or the output format that the admin commands have under the same letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Start(Start),
    Json,
}

pub(super) fn parse(text: &str) -> Result<Where, String> {
    let count = |text: &str| text.parse::<i64>().ok().filter(|count| *count >= 0);
    let start = match text {
        "json" => return Ok(Where::Json),
        "start" | "beginning" | "earliest" => Some(Start::Earliest),
        "end" | "latest" => Some(Start::Latest),
        _ => match (text.get(..1), text.get(1..).unwrap_or_default(), text.split_once(':')) {
            (Some("+"), after, _) => count(after).map(Start::FromBeginning),
            (Some("-"), before, _) => count(before).map(Start::BeforeEnd),
            (Some("@"), time, _) => parse_instant(time).map(Start::Time),
            (_, _, Some(("offset", offset))) => count(offset).map(Start::Offset),
            (_, _, Some(("time", time))) => parse_instant(time).map(Start::Time),
            _ => count(text).map(Start::Offset),
        },
    };
    start.map(Where::Start).ok_or_else(|| {
        "it must be start, end, an offset, +N (after the start), -N (before the end), or a time such as @1700000000000, \
         @2026-07-01T08:00:00Z or @-1h"
            .to_owned()
    })
}

impl Start {
    /// Moves partitions to where reading begins. Those that the group has an offset of stay there.
    pub(super) async fn place(self, consumer: &mut RebalanceConsumer, partitions: &[TopicPartition]) -> Result<()> {
        let mut partitions = partitions.to_vec();
        if consumer.config().group_id.is_some() {
            let committed = consumer.committed(&partitions).await?;
            partitions.retain(|partition| !committed.contains_key(partition));
        }
        match self {
            Self::Earliest => consumer.seek_to_beginning(&partitions)?,
            Self::Latest => consumer.seek_to_end(&partitions)?,
            Self::Offset(offset) => place_at_offset(consumer, &partitions, offset).await?,
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
            Self::Time(millis) => place_at_time(consumer, &partitions, millis).await?,
        }
        Ok(())
    }
}

async fn place_at_offset(consumer: &mut RebalanceConsumer, partitions: &[TopicPartition], offset: i64) -> Result<()> {
    let beginnings = consumer.beginning_offsets(partitions).await?;
    let ends = consumer.end_offsets(partitions).await?;
    for partition in partitions {
        if let (Some(beginning), Some(end)) = (beginnings.get(partition), ends.get(partition)) {
            ensure!(
                (*beginning..=*end).contains(&offset),
                "{partition} has no offset {offset}: it begins at {beginning} and ends before {end}; choose another one, \
                 or other partitions with -p"
            );
        }
        consumer.seek(partition, offset)?;
    }
    Ok(())
}

async fn place_at_time(consumer: &mut RebalanceConsumer, partitions: &[TopicPartition], millis: i64) -> Result<()> {
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
            // All that is there is older.
            None => consumer.seek_to_end([partition])?,
        }
    }
    Ok(())
}

/// In a group, partitions come when they come.
impl RebalanceListener for Start {
    async fn assigned(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        Ok(self.place(consumer, partitions).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_begin_are_understood() {
        for (text, start) in [
            ("start", Start::Earliest),
            ("beginning", Start::Earliest),
            ("earliest", Start::Earliest),
            ("end", Start::Latest),
            ("latest", Start::Latest),
            ("7", Start::Offset(7)),
            ("offset:7", Start::Offset(7)),
            ("+7", Start::FromBeginning(7)),
            ("-7", Start::BeforeEnd(7)),
            ("@1700000000000", Start::Time(1_700_000_000_000)),
            ("@1970-01-02", Start::Time(86_400_000)),
            ("time:1700000000000", Start::Time(1_700_000_000_000)),
        ] {
            assert_eq!(parse(text), Ok(Where::Start(start)), "{text}");
        }
        assert_eq!(parse("json"), Ok(Where::Json));
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

//! Where reading begins.

use std::str::FromStr as _;

use anyhow::{Result, ensure};
use milena_client::consumer::{ListenerError, Position, RebalanceConsumer, RebalanceListener, TopicPartition};
use toml::value::{Date, Datetime, Offset, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Earliest,
    Latest,
    Offset(i64),
    /// The first record that is not older than so many milliseconds since 1970.
    Time(i64),
}

pub(super) fn parse(text: &str) -> Result<Start, String> {
    let start = match text.split_once(':') {
        None if text == "earliest" => Some(Start::Earliest),
        None if text == "latest" => Some(Start::Latest),
        Some(("offset", offset)) => offset.parse().ok().filter(|offset| *offset >= 0).map(Start::Offset),
        Some(("time", time)) => parse_time(time).map(Start::Time),
        _ => None,
    };
    start.ok_or_else(|| {
        "it must be earliest, latest, offset:N, time:MILLISECONDS or a time such as time:2026-07-01T08:00:00Z"
            .to_owned()
    })
}

/// Milliseconds since 1970, or a time as TOML writes it; in UTC if it names no zone.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse() {
        return Some(millis).filter(|millis| *millis >= 0);
    }
    let Datetime {
        date: Some(date),
        time,
        offset,
    } = Datetime::from_str(text).ok()?
    else {
        return None;
    };
    let millis_of_day = time.map_or(0, millis_of_day);
    let offset_minutes = match offset {
        Some(Offset::Custom { minutes }) => i64::from(minutes),
        Some(Offset::Z) | None => 0,
    };
    let millis = days_since_1970(date) * 86_400_000 + millis_of_day - offset_minutes * 60_000;
    Some(millis).filter(|millis| *millis >= 0)
}

fn millis_of_day(time: Time) -> i64 {
    let seconds = (i64::from(time.hour) * 60 + i64::from(time.minute)) * 60 + i64::from(time.second.unwrap_or(0));
    seconds * 1000 + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000)
}

/// In the Gregorian calendar. Years begin with March here, so that the leap day is the last one.
fn days_since_1970(date: Date) -> i64 {
    let (month, day) = (i64::from(date.month), i64::from(date.day));
    let year = i64::from(date.year) - i64::from(month <= 2);
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    // From 1 March of the year 0 to 1970.
    year * 365 + leap_days + day_of_year - 719_468
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
                 or other partitions with --partition"
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
        assert_eq!(parse("earliest"), Ok(Start::Earliest));
        assert_eq!(parse("latest"), Ok(Start::Latest));
        assert_eq!(parse("offset:7"), Ok(Start::Offset(7)));
        assert_eq!(parse("time:1700000000000"), Ok(Start::Time(1_700_000_000_000)));
        for wrong in [
            "",
            "first",
            "offset",
            "offset:-1",
            "offset:x",
            "time:",
            "time:-5",
            "time:2026-02-30",
            "time:08:00",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_those_that_date_prints() {
        // Each as `date -u -d TEXT +%s%3N` tells.
        for (text, millis) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400_000),
            ("2000-03-01", 951_868_800_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14 22:13:20.123", 1_700_000_000_123),
            ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
            ("2100-02-28T23:59:59-00:30", 4_107_544_199_000),
            ("2100-03-01", 4_107_542_400_000),
        ] {
            assert_eq!(parse_time(text), Some(millis), "{text}");
        }
        assert_eq!(parse_time("1969-12-31"), None);
    }
}

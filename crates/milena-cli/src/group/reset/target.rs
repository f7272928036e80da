//! Targets of `milena group reset`, in our syntax and in that of kafka-consumer-groups.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use milena_client::admin::OffsetTarget;

use crate::time::{now_ms, parse_duration, parse_instant};

#[derive(clap::Args)]
#[group(id = "place", required = true, multiple = false)]
pub(super) struct TargetArguments {
    /// New position: earliest, latest, current, offset:N, shift:N (backwards if negative), ago:1h, time:MILLISECONDS or
    /// time:2026-07-01T08:00:00Z (UTC without a zone)
    #[arg(long, value_name = "WHERE", value_parser = parse)]
    to: Option<OffsetTarget>,
    /// Read offsets from a CSV file with lines TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET; --export writes
    /// it
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Same as --to earliest
    #[arg(long, help_heading = "As in kafka-consumer-groups")]
    to_earliest: bool,
    /// Same as --to latest
    #[arg(long, help_heading = "As in kafka-consumer-groups")]
    to_latest: bool,
    /// Same as --to current
    #[arg(long, help_heading = "As in kafka-consumer-groups")]
    to_current: bool,
    /// Same as --to offset:N
    #[arg(long, value_name = "N", help_heading = "As in kafka-consumer-groups", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// Same as --to time:TIME
    #[arg(long, value_name = "TIME", help_heading = "As in kafka-consumer-groups", value_parser = instant)]
    to_datetime: Option<i64>,
    /// Same as --to ago:DURATION, as in PT1H30M or 90m
    #[arg(long, value_name = "DURATION", help_heading = "As in kafka-consumer-groups", value_parser = duration)]
    by_duration: Option<Duration>,
    /// Same as --to shift:N
    #[arg(
        long,
        value_name = "N",
        help_heading = "As in kafka-consumer-groups",
        allow_hyphen_values = true
    )]
    shift_by: Option<i64>,
}

/// The target that the arguments name.
pub(super) enum Target<'a> {
    Place(OffsetTarget),
    File(&'a PathBuf),
}

impl TargetArguments {
    pub(super) fn target(&self) -> Result<Target<'_>> {
        if let Some(file) = &self.from_file {
            return Ok(Target::File(file));
        }
        let flag = |given: bool, target| given.then_some(target);
        let places = [
            self.to,
            flag(self.to_earliest, OffsetTarget::Earliest),
            flag(self.to_latest, OffsetTarget::Latest),
            flag(self.to_current, OffsetTarget::Current),
            self.to_offset.map(OffsetTarget::Offset),
            self.to_datetime.map(OffsetTarget::Timestamp),
            self.by_duration.and_then(ago),
            self.shift_by.map(OffsetTarget::ShiftBy),
        ];
        let place = places.into_iter().flatten().next();
        place
            .map(Target::Place)
            .context("no target given; use --to WHERE or --from-file FILE")
    }
}

fn ago(duration: Duration) -> Option<OffsetTarget> {
    let millis = i64::try_from(duration.as_millis()).ok()?;
    Some(OffsetTarget::Timestamp(now_ms().checked_sub(millis)?.max(0)))
}

fn instant(text: &str) -> Result<i64, String> {
    parse_instant(text).ok_or_else(|| "expected a time such as 2026-07-01T08:00:00Z".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as PT1H30M or 90m".to_owned())
}

fn parse(text: &str) -> Result<OffsetTarget, String> {
    let target = match text.split_once(':') {
        None if text == "earliest" || text == "start" => Some(OffsetTarget::Earliest),
        None if text == "latest" || text == "end" => Some(OffsetTarget::Latest),
        None if text == "current" => Some(OffsetTarget::Current),
        None => text
            .strip_prefix('@')
            .and_then(parse_instant)
            .map(OffsetTarget::Timestamp),
        Some(("offset", offset)) => offset
            .parse()
            .ok()
            .filter(|offset| *offset >= 0)
            .map(OffsetTarget::Offset),
        Some(("time", time)) => parse_instant(time).map(OffsetTarget::Timestamp),
        Some(("ago", duration)) => parse_duration(duration).and_then(ago),
        Some(("shift", count)) => count.parse().ok().map(OffsetTarget::ShiftBy),
        Some(_) => text
            .strip_prefix('@')
            .and_then(parse_instant)
            .map(OffsetTarget::Timestamp),
    };
    target.ok_or_else(|| {
        "expected earliest, latest, current, offset:N, shift:N, ago:1h, time:MILLISECONDS or a time such as \
         time:2026-07-01T08:00:00Z"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_are_understood() {
        assert_eq!(parse("earliest"), Ok(OffsetTarget::Earliest));
        assert_eq!(parse("latest"), Ok(OffsetTarget::Latest));
        assert_eq!(parse("current"), Ok(OffsetTarget::Current));
        assert_eq!(parse("offset:7"), Ok(OffsetTarget::Offset(7)));
        assert_eq!(parse("time:1970-01-02"), Ok(OffsetTarget::Timestamp(86_400_000)));
        assert_eq!(parse("@1970-01-02T00:00:00Z"), Ok(OffsetTarget::Timestamp(86_400_000)));
        assert_eq!(parse("shift:-5"), Ok(OffsetTarget::ShiftBy(-5)));
        assert_eq!(parse("shift:+5"), Ok(OffsetTarget::ShiftBy(5)));
        for ago in ["ago:1h", "ago:PT1H"] {
            let Ok(OffsetTarget::Timestamp(time)) = parse(ago) else {
                panic!("{ago}");
            };
            assert!((now_ms() - 3_600_000 - time).abs() < 60_000, "{ago}");
        }
        for wrong in ["", "first", "offset:-1", "shift:", "shift:x", "time:soon", "ago:", "@"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

//! Timestamps and durations on the command line.

use std::{
    fmt::Write as _,
    str::FromStr as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use milena_client::config::parse_time;
use toml::value::{Date, Datetime, Offset, Time};

const MILLIS_PER_DAY: i64 = 86_400_000;

/// The current time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Parses a timestamp: milliseconds since 1970, a date and time (UTC without a zone), or an age such as `-1h`.
pub(crate) fn parse_instant(text: &str) -> Option<i64> {
    let millis = match text.strip_prefix('-') {
        Some(ago) => now_ms() - i64::try_from(parse_duration(ago)?.as_millis()).ok()?,
        None => text.parse().ok().or_else(|| parse_datetime(text))?,
    };
    Some(millis).filter(|millis| *millis >= 0)
}

/// Parses a date and time in the syntax of TOML.
fn parse_datetime(text: &str) -> Option<i64> {
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
    Some(days_since_1970(date) * MILLIS_PER_DAY + millis_of_day - offset_minutes * 60_000)
}

fn millis_of_day(time: Time) -> i64 {
    let seconds = (i64::from(time.hour) * 60 + i64::from(time.minute)) * 60 + i64::from(time.second.unwrap_or(0));
    seconds * 1000 + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000)
}

/// The day number in the Gregorian calendar. Years begin in March here, so that the leap day is the last day.
fn days_since_1970(date: Date) -> i64 {
    let (month, day) = (i64::from(date.month), i64::from(date.day));
    let year = i64::from(date.year) - i64::from(month <= 2);
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    // From 1 March of year 0 to 1970.
    year * 365 + leap_days + day_of_year - 719_468
}

/// Year, month and day; the inverse of [`days_since_1970`].
fn date_of(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_OF_400_YEARS);
    let day_of_era = days.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Parses `90s`, `1h` or `7d`, and Kafka's ISO form `PnDTnHnMnS`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let Some(iso) = text.strip_prefix(['P', 'p']) else {
        return parse_time(text).ok();
    };
    let (days, time) = iso.split_once(['T', 't']).unwrap_or((iso, ""));
    let days = iso_parts(days, &[('D', 86_400)])?;
    let time = iso_parts(time, &[('H', 3_600), ('M', 60), ('S', 1)])?;
    (!iso.is_empty() && !iso.ends_with(['T', 't'])).then(|| Duration::from_millis(days.saturating_add(time)))
}

/// The milliseconds of numbers with these units, in this order.
fn iso_parts(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut millis: u64 = 0;
    for (unit, seconds) in units {
        let end = text.find(|letter: char| letter.eq_ignore_ascii_case(unit));
        let Some((number, rest)) = end.and_then(|end| text.split_at_checked(end)) else {
            continue;
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = whole.parse().ok()?;
        let part: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
        let part_of = seconds.checked_mul(part)?;
        millis = whole
            .checked_mul(seconds.checked_mul(1000)?)?
            .checked_add(part_of)?
            .checked_add(millis)?;
        text = rest.get(1..)?;
    }
    text.is_empty().then_some(millis)
}

/// An output format of timestamps, always in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    Millis,
    Seconds,
    /// For example `2026-07-01T08:00:00.123Z`.
    Iso,
    /// A pattern with the fields of `strftime`.
    Pattern(String),
}

impl TimeFormat {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "ms" => Ok(Self::Millis),
            "s" => Ok(Self::Seconds),
            "iso" => Ok(Self::Iso),
            pattern if pattern.contains('%') => {
                Self::Pattern(pattern.to_owned()).write(0)?;
                Ok(Self::Pattern(pattern.to_owned()))
            }
            _ => Err(format!(
                "unknown format %T{{{text}}}; use %T{{ms}}, %T{{s}}, %T{{iso}} or a pattern such as %T{{%H:%M:%S}}"
            )),
        }
    }

    /// Formats a timestamp. Fails for a pattern with an unknown field.
    pub(crate) fn write(&self, millis: i64) -> Result<String, String> {
        match self {
            Self::Millis => Ok(millis.to_string()),
            Self::Seconds => Ok(millis.div_euclid(1000).to_string()),
            Self::Iso => write_pattern("%Y-%m-%dT%H:%M:%S.%LZ", millis),
            Self::Pattern(pattern) => write_pattern(pattern, millis),
        }
    }
}

fn write_pattern(pattern: &str, millis: i64) -> Result<String, String> {
    let (year, month, day) = date_of(millis.div_euclid(MILLIS_PER_DAY));
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    let mut text = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let field = letters.next();
        let written = match field {
            Some('Y') => write!(text, "{year:04}"),
            Some('m') => write!(text, "{month:02}"),
            Some('d') => write!(text, "{day:02}"),
            Some('H') => write!(text, "{hour:02}"),
            Some('M') => write!(text, "{minute:02}"),
            Some('S') => write!(text, "{second:02}"),
            Some('L') => write!(text, "{:03}", of_day % 1000),
            Some('s') => write!(text, "{}", millis.div_euclid(1000)),
            Some('F') => write!(text, "{year:04}-{month:02}-{day:02}"),
            Some('T') => write!(text, "{hour:02}:{minute:02}:{second:02}"),
            Some('%') => write!(text, "%"),
            _ => {
                let field = field.map_or_else(String::new, |letter| letter.to_string());
                return Err(format!(
                    "unknown time field %{field}; fields are %Y %m %d %H %M %S, %L milliseconds, %s seconds since 1970, \
                     %F as %Y-%m-%d, %T as %H:%M:%S"
                ));
            }
        };
        // Writing to a string cannot fail.
        let _ = written;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_that_date_prints() {
        // Expected values are those of `date -u -d TEXT +%s%3N`.
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
            assert_eq!(parse_instant(text), Some(millis), "{text}");
            let iso = TimeFormat::Iso.write(millis).unwrap();
            assert_eq!(parse_instant(&iso), Some(millis), "{iso}");
        }
        assert_eq!(parse_instant("1969-12-31"), None);
        let hour_ago = parse_instant("-1h").unwrap();
        assert!((now_ms() - 3_600_000 - hour_ago).abs() < 60_000);
    }

    #[test]
    fn durations_have_a_unit_or_are_those_of_iso() {
        for (text, seconds) in [
            ("90s", 90),
            ("1h", 3600),
            ("P1D", 86_400),
            ("PT1H30M", 5400),
            ("P1DT1S", 86_401),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("PT0.5S"), Some(Duration::from_millis(500)));
        for wrong in ["", "1", "P", "PT", "P1", "P1H", "PT1D", "PT1H1H", "PTxS", "-1h"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_is_written_as_one_likes() {
        let write = |format: &str| TimeFormat::parse(format).unwrap().write(1_700_000_000_123).unwrap();
        assert_eq!(write("ms"), "1700000000123");
        assert_eq!(write("s"), "1700000000");
        assert_eq!(write("iso"), "2023-11-14T22:13:20.123Z");
        assert_eq!(write("%F %T.%L 100%%"), "2023-11-14 22:13:20.123 100%");
        assert_eq!(write("%d.%m.%Y %H.%M.%S %s"), "14.11.2023 22.13.20 1700000000");
        for (wrong, named) in [
            ("%Q", "unknown time field %Q"),
            ("%H:%", "unknown time field %;"),
            ("utc", "unknown format %T{utc}"),
        ] {
            assert!(
                TimeFormat::parse(wrong).is_err_and(|error| error.contains(named)),
                "{wrong}"
            );
        }
    }
}

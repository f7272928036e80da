//! Times in certificates.

use std::time::{SystemTime, UNIX_EPOCH};

use super::der::{DerError, Element};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Seconds since 1970 of a `UTCTime` or `GeneralizedTime`.
pub(crate) fn parse_seconds(element: Element<'_>) -> Result<i64, DerError> {
    let bad = || DerError::Value("time");
    let text = str::from_utf8(element.value).map_err(|_| bad())?;
    let digits = text.strip_suffix('Z').ok_or_else(bad)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let (year, rest) = match (element.tag, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = digits.split_at_checked(2).ok_or_else(bad)?;
            let year: i64 = year.parse().map_err(|_| bad())?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at_checked(4).ok_or_else(bad)?;
            (year.parse().map_err(|_| bad())?, rest)
        }
        _ => return Err(bad()),
    };
    let part = |from: usize| -> Result<i64, DerError> {
        let two = rest.get(from..from + 2).ok_or_else(bad)?;
        two.parse().map_err(|_| bad())
    };
    let (month, day) = (part(0)?, part(2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(bad());
    }
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    Ok(days_since_1970(year, month, day) * 86_400 + seconds)
}

pub(crate) fn seconds_since_1970(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX))
}

/// A time as `2026-11-18T06:30:00Z`.
pub(crate) fn format_seconds(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Days of the proleptic Gregorian calendar; years begin in March, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(tag: u8, text: &str) -> Result<i64, DerError> {
        let value = text.as_bytes();
        parse_seconds(Element {
            tag,
            value,
            whole: value,
        })
    }

    #[test]
    fn both_forms_are_read_and_written_back() {
        for (tag, text, number, shown) in [
            (UTC_TIME, "700101000000Z", 0, "1970-01-01T00:00:00Z"),
            (UTC_TIME, "261118063000Z", 1_794_983_400, "2026-11-18T06:30:00Z"),
            (UTC_TIME, "500101000000Z", -631_152_000, "1950-01-01T00:00:00Z"),
            (GENERALIZED_TIME, "20000229235959Z", 951_868_799, "2000-02-29T23:59:59Z"),
            (
                GENERALIZED_TIME,
                "99991231235959Z",
                253_402_300_799,
                "9999-12-31T23:59:59Z",
            ),
        ] {
            assert_eq!(seconds(tag, text), Ok(number), "{text}");
            assert_eq!(format_seconds(number), shown);
        }
    }

    #[test]
    fn other_forms_are_errors() {
        for (tag, text) in [
            (UTC_TIME, "2611180630Z"),
            (UTC_TIME, "261118063000"),
            (UTC_TIME, "261318063000Z"),
            (UTC_TIME, "-61118063000Z"),
            (GENERALIZED_TIME, "20261118063000+0100"),
            (4, "20261118063000Z"),
        ] {
            assert!(seconds(tag, text).is_err(), "{text}");
        }
    }
}

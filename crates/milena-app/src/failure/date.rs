//! RFC 3339 timestamps.

/// Formats milliseconds since 1970, as in `2026-07-01T08:00:00.123Z`.
pub fn rfc3339(at_ms: i64) -> String {
    let days = at_ms.div_euclid(DAY_MS);
    let in_day = at_ms.rem_euclid(DAY_MS);
    let (year, month, day) = civil(days);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Parses the output of [`rfc3339`] with any number of fractional digits, or a plain number of milliseconds.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse() {
        return Some(ms);
    }
    let time: toml::value::Datetime = text.parse().ok()?;
    let (date, time_of_day) = (time.date?, time.time?);
    let offset_minutes = match time.offset? {
        toml::value::Offset::Z => 0,
        toml::value::Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let minutes = i64::from(time_of_day.hour) * 60 + i64::from(time_of_day.minute) - offset_minutes;
    let seconds = minutes * 60 + i64::from(time_of_day.second.unwrap_or(0));
    Some(days * DAY_MS + seconds * 1000 + i64::from(time_of_day.nanosecond.unwrap_or(0) / 1_000_000))
}

const DAY_MS: i64 = 86_400_000;
/// Days in 400 years, the period of the calendar.
const ERA_DAYS: i64 = 146_097;
/// Days from March 1 of the year 0 to January 1, 1970.
const EPOCH_DAYS: i64 = 719_468;

/// Converts days since 1970 to a date. Years are counted from March, so that the leap day comes last and months are
/// regular.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = (month + 9) % 12;
    let of_year = (153 * march_month + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * ERA_DAYS + of_era - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_782_892_800_123, "2026-07-01T08:00:00.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in known {
            assert_eq!(rfc3339(ms), text);
            assert_eq!(parse_rfc3339(text), Some(ms));
        }
        assert_eq!(
            parse_rfc3339("2026-07-01T10:00:00.123456+02:00"),
            Some(1_782_892_800_123)
        );
        assert_eq!(parse_rfc3339("1782892800123"), Some(1_782_892_800_123));
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}

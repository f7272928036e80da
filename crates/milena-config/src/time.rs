//! Time spans in commands and files: a number and its unit.

use std::time::Duration;

/// The reason why a text is no time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("it must be a number followed by ms, s, m, h or d, as in 90s or 7d")]
    NotATime,
    #[error("the time span is too long")]
    TooLong,
}

/// Parses a time span such as `90s` or `7d`.
pub fn parse_time(text: &str) -> Result<Duration, TimeError> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(TimeError::NotATime),
    };
    let number: u64 = number.parse().map_err(|_| TimeError::NotATime)?;
    let ms = number.checked_mul(unit_ms).ok_or(TimeError::TooLong)?;
    Ok(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("2m", 120), ("1h", 3600), ("7d", 604_800), ("3000ms", 3)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in [
            "",
            "7",
            "d",
            "1w",
            "-1s",
            "1.5h",
            "1h30m",
            "s5",
            "99999999999999999999d",
            "999999999999999d",
        ] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}

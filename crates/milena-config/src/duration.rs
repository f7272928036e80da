//! ISO-8601 durations in the form that `java.time.Duration.parse` reads: `PnDTnHnMn.nS`.

use std::time::Duration;

/// Parses an ISO-8601 duration; `None` if the text is no duration, or negative, or too long for Java.
///
/// The whole and every part of it may have a sign: `P1DT-1H` is 23 hours, `-PT-5M` is 5 minutes.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let (negative, rest) = match upper.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, upper.strip_prefix('+').unwrap_or(&upper)),
    };
    let nanos = parse_parts(rest.strip_prefix('P')?)?;
    let nanos = if negative { -nanos } else { nanos };
    let nanos = u128::try_from(nanos).ok()?;
    let seconds = u64::try_from(nanos / NANOS)
        .ok()
        .filter(|seconds| i64::try_from(*seconds).is_ok())?;
    let nanos = u32::try_from(nanos % NANOS).ok()?;
    Some(Duration::new(seconds, nanos))
}

const NANOS: u128 = 1_000_000_000;

/// The parts after the `P`, in nanoseconds: days, then after a `T` hours, minutes and seconds, each at most once.
fn parse_parts(text: &str) -> Option<i128> {
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let (days, date) = take_part(date, 'D', 86_400)?;
    let (hours, time) = take_part(time, 'H', 3600)?;
    let (minutes, time) = take_part(time, 'M', 60)?;
    let (seconds, time) = take_seconds(time)?;
    let done = date.is_empty() && time.is_empty();
    done.then_some(())?;
    // Each part fits 64 bits in seconds, so their sum in nanoseconds fits 128.
    Some(days + hours + minutes + seconds)
}

/// The integer before the letter of its unit, in nanoseconds, and the rest. Zero without that unit.
fn take_part(text: &str, unit: char, unit_seconds: i64) -> Option<(i128, &str)> {
    let Some((number, rest)) = text.split_once(unit) else {
        return Some((0, text));
    };
    let seconds = parse_number(number)?.checked_mul(unit_seconds)?;
    Some((in_nanos(seconds), rest))
}

/// Seconds may have up to nine decimals behind a point or a comma, which share the sign of the integer.
fn take_seconds(text: &str) -> Option<(i128, &str)> {
    let Some((number, rest)) = text.split_once('S') else {
        return Some((0, text));
    };
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let digits = fraction.len() <= 9 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    digits.then_some(())?;
    let nanos: i128 = format!("{fraction:0<9}").parse().ok()?;
    let nanos = if whole.starts_with('-') { -nanos } else { nanos };
    Some((in_nanos(parse_number(whole)?) + nanos, rest))
}

/// Digits with at most one sign.
fn parse_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let valid = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    valid.then(|| text.parse().ok())?
}

fn in_nanos(seconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000
}

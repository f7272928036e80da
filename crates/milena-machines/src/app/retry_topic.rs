//! Due times and histories of records in retry topics. The delay of a topic is fixed, so its first record is due first,
//! and the partition is paused until then.

use super::RetryInfo;

/// The accepted clock skew of the writer of a record.
const SKEW_MS: i64 = 60_000;
/// The bound for the attempts in a header.
const ATTEMPTS_MAX: u32 = 10_000;

/// The time when a record is due. Any client can write the header, so it cannot make the topic wait longer than its delay
/// plus the clock skew.
pub fn due_ms(now_ms: i64, delay_ms: i64, info: Option<RetryInfo>) -> i64 {
    let latest = now_ms.saturating_add(delay_ms.max(0)).saturating_add(SKEW_MS);
    let claimed = info.and_then(|info| info.due_ms);
    claimed.unwrap_or_else(|| now_ms.saturating_add(delay_ms)).min(latest)
}

/// The number of earlier attempts and the time of the first failure, within bounds.
pub fn history(now_ms: i64, info: Option<RetryInfo>) -> (u32, Option<i64>) {
    let info = info.unwrap_or_default();
    let first_failed_ms = info.first_failed_ms.map(|at| at.clamp(0, now_ms.max(0)));
    (info.attempts.min(ATTEMPTS_MAX), first_failed_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(due_ms: Option<i64>) -> Option<RetryInfo> {
        Some(RetryInfo {
            due_ms,
            ..RetryInfo::default()
        })
    }

    #[test]
    fn a_record_is_due_when_it_says() {
        assert_eq!(due_ms(1_000, 5_000, due(Some(4_000))), 4_000);
        assert_eq!(due_ms(1_000, 5_000, due(Some(0))), 0);
    }

    #[test]
    fn hostile_due_times_are_bounded() {
        assert_eq!(due_ms(1_000, 5_000, due(Some(i64::MAX))), 66_000);
        assert_eq!(due_ms(1_000, 5_000, due(Some(i64::MIN))), i64::MIN);
        assert_eq!(due_ms(i64::MAX, 5_000, due(Some(i64::MAX))), i64::MAX);
    }

    /// Early would break the promise of the delay; late does not.
    #[test]
    fn a_record_that_does_not_say_waits_for_the_whole_delay() {
        assert_eq!(due_ms(1_000, 5_000, due(None)), 6_000);
        assert_eq!(due_ms(1_000, 5_000, None), 6_000);
    }

    #[test]
    fn hostile_histories_are_bounded() {
        let info = RetryInfo {
            attempts: u32::MAX,
            due_ms: None,
            first_failed_ms: Some(i64::MAX),
            returns: u8::MAX,
        };
        assert_eq!(history(1_000, Some(info)), (ATTEMPTS_MAX, Some(1_000)));
        assert_eq!(history(1_000, None), (0, None));
    }
}

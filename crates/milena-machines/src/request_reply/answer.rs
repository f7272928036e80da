//! Deadlines of requests, on the side that answers.

/// Bounds of the side that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerConfig {
    /// Difference between the clocks of requester and service that is tolerated. A request is expired only if it is
    /// expired by both clocks.
    pub clock_skew_ms: i64,
    /// Time for which the write of a reply is tried. The deadline of a request is untrusted input and may be far away.
    pub reply_ms_max: i64,
}

impl Default for AnswerConfig {
    fn default() -> Self {
        Self {
            clock_skew_ms: 1_000,
            reply_ms_max: 10_000,
        }
    }
}

/// Whether the requester has given up. A request without a deadline never expires.
pub fn is_expired(config: AnswerConfig, deadline_ms: Option<i64>, now_ms: i64) -> bool {
    deadline_ms.is_some_and(|deadline_ms| now_ms > deadline_ms.saturating_add(config.clock_skew_ms))
}

/// The time at which the write of a reply is given up. A requester that is gone must not keep its request unfinished.
pub fn give_up_ms(config: AnswerConfig, deadline_ms: Option<i64>, now_ms: i64) -> i64 {
    let latest_ms = now_ms.saturating_add(config.reply_ms_max);
    deadline_ms.map_or(latest_ms, |deadline_ms| {
        deadline_ms
            .saturating_add(config.clock_skew_ms)
            .clamp(now_ms, latest_ms)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_expires_when_no_clock_has_time_left() {
        let config = AnswerConfig::default();
        assert!(!is_expired(config, None, i64::MAX));
        assert!(!is_expired(config, Some(5_000), 6_000));
        assert!(is_expired(config, Some(5_000), 6_001));
        assert!(!is_expired(config, Some(i64::MAX), i64::MAX));
        assert!(is_expired(config, Some(i64::MIN), 0));
    }

    #[test]
    fn a_reply_is_given_up_soon_whatever_the_request_says() {
        let config = AnswerConfig::default();
        assert_eq!(give_up_ms(config, None, 1_000), 11_000);
        assert_eq!(give_up_ms(config, Some(i64::MAX), 1_000), 11_000);
        assert_eq!(give_up_ms(config, Some(3_000), 1_000), 4_000);
        assert_eq!(give_up_ms(config, Some(i64::MIN), 1_000), 1_000);
    }
}

//! The time at which a token is replaced, before it expires.

use crate::Random;

/// Interval between attempts after a failure.
pub const RETRY_MS: i64 = 10_000;

/// The keys `sasl.login.refresh.*`. The default is Kafka's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefreshSettings {
    /// Share of the lifetime after which a token is replaced.
    pub window_factor: f64,
    /// Largest random share that is added to it.
    pub window_jitter: f64,
    pub min_period_ms: i64,
    /// Time before the expiry at which a token is replaced at the latest.
    pub buffer_ms: i64,
}

impl Default for RefreshSettings {
    fn default() -> Self {
        Self {
            window_factor: 0.8,
            window_jitter: 0.05,
            min_period_ms: 60_000,
            buffer_ms: 300_000,
        }
    }
}

/// The lifetime of a token, in milliseconds of any clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLifetime {
    pub issued_at_ms: i64,
    pub expires_at_ms: i64,
}

impl RefreshSettings {
    /// The time of the next request, if the token was received at `now_ms`.
    ///
    /// A token that is too short for both the minimum period and the buffer is replaced after a share of what is left.
    /// The result is later than `now_ms`, so that an issuer of expired tokens is not asked without a pause.
    pub fn refresh_at_ms(&self, token: TokenLifetime, now_ms: i64, random: &mut Random) -> i64 {
        let left_ms = token.expires_at_ms.saturating_sub(now_ms);
        if left_ms <= 0 {
            return now_ms.saturating_add(RETRY_MS);
        }
        let share = self.share(random);
        if left_ms < self.min_period_ms.saturating_add(self.buffer_ms) {
            return now_ms.saturating_add(part(left_ms, share).max(1));
        }
        let life_ms = token.expires_at_ms.saturating_sub(token.issued_at_ms);
        let at_ms = token.issued_at_ms.saturating_add(part(life_ms, share));
        let latest_ms = token.expires_at_ms.saturating_sub(self.buffer_ms);
        at_ms
            .min(latest_ms)
            .max(now_ms.saturating_add(self.min_period_ms))
            .max(now_ms.saturating_add(1))
    }

    fn share(&self, random: &mut Random) -> f64 {
        const STEPS: u64 = 1_000_000;
        #[expect(clippy::cast_precision_loss, reason = "the numbers are below a million")]
        let jitter = random.below(STEPS + 1) as f64 / STEPS as f64;
        self.window_factor + self.window_jitter * jitter
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a share of a lifetime need not be exact, and the cast saturates"
)]
fn part(ms: i64, share: f64) -> i64 {
    (ms as f64 * share) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn range(token: TokenLifetime, now_ms: i64) -> (i64, i64) {
        let settings = RefreshSettings::default();
        let times = (0..500).map(|seed| settings.refresh_at_ms(token, now_ms, &mut Random::new(seed)));
        let times: Vec<i64> = times.collect();
        (*times.iter().min().unwrap(), *times.iter().max().unwrap())
    }

    #[test]
    fn a_token_is_replaced_after_a_share_of_its_life() {
        let token = TokenLifetime {
            issued_at_ms: 0,
            expires_at_ms: HOUR_MS,
        };
        let (first, last) = range(token, 0);
        assert!((2_880_000..=2_900_000).contains(&first), "{first}");
        assert!((3_040_000..=3_060_000).contains(&last), "{last}");
    }

    #[test]
    fn the_buffer_and_the_minimum_period_are_kept() {
        let minutes = |minutes: i64| minutes * 60_000;
        let ten = TokenLifetime {
            issued_at_ms: 0,
            expires_at_ms: minutes(10),
        };
        assert_eq!(range(ten, 0), (minutes(5), minutes(5)), "the buffer of five minutes");
        let old = TokenLifetime {
            issued_at_ms: -minutes(1_000),
            expires_at_ms: minutes(6),
        };
        assert_eq!(
            range(old, 0),
            (minutes(1), minutes(1)),
            "the minimum period of a minute"
        );
    }

    #[test]
    fn a_short_token_is_replaced_after_a_share_of_what_is_left() {
        let token = TokenLifetime {
            issued_at_ms: 0,
            expires_at_ms: 110_000,
        };
        let (first, last) = range(token, 10_000);
        assert!(first >= 90_000 && last <= 95_000, "{first} to {last}");
    }

    #[test]
    fn an_expired_token_is_not_replaced_at_once() {
        let token = TokenLifetime {
            issued_at_ms: 0,
            expires_at_ms: 5,
        };
        assert_eq!(range(token, 5), (5 + RETRY_MS, 5 + RETRY_MS));
        let endless = TokenLifetime {
            issued_at_ms: i64::MIN,
            expires_at_ms: i64::MAX,
        };
        assert!(range(endless, 0).0 > 0);
    }
}

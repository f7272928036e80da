//! The time of the next re-authentication.

use crate::Random;

/// The shortest time between the start of a re-authentication and the end of the session.
const MARGIN_MS_MIN: u64 = 1000;

/// Returns how long after a log-in the client begins to re-authenticate: after 85 to 95 % of the session's lifetime, so
/// that many connections do not do it at once, and early enough for a log-in as slow as the last one.
///
/// A session that is too short for that is renewed after half of its lifetime.
pub fn reauthenticate_after_ms(session_lifetime_ms: u64, login_latency_ms: u64, seed: u64) -> u64 {
    let permille = 850 + Random::new(seed).below(101);
    let lifetime = u128::from(session_lifetime_ms);
    let at = lifetime * u128::from(permille) / 1000;
    let margin = u128::from(login_latency_ms).saturating_mul(11) / 10;
    let latest = lifetime.saturating_sub(margin.max(u128::from(MARGIN_MS_MIN)));
    u64::try_from(at.min(latest).max(lifetime / 2)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_renewed_between_85_and_95_percent_of_its_lifetime() {
        for seed in 0..1000 {
            let after = reauthenticate_after_ms(100_000, 10, seed);
            assert!((85_000..=95_000).contains(&after), "{after}");
        }
    }

    #[test]
    fn a_short_session_keeps_a_second_or_the_time_of_a_log_in() {
        for seed in 0..100 {
            assert!(reauthenticate_after_ms(5000, 0, seed) <= 4000);
            assert!(reauthenticate_after_ms(100_000, 20_000, seed) <= 78_000);
            assert_eq!(reauthenticate_after_ms(1000, 0, seed), 500);
            assert_eq!(reauthenticate_after_ms(0, 5, seed), 0);
        }
        assert!(reauthenticate_after_ms(u64::MAX, u64::MAX, 1) >= u64::MAX / 2);
    }
}

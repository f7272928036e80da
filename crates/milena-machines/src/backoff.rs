//! Exponential backoff with jitter: the wait before the next attempt.

use crate::Random;

/// The jitter: a wait is up to this part shorter or longer.
const JITTER_PART: i64 = 5;

/// Doubles the wait with each failure up to a maximum, and moves it by up to a fifth.
///
/// The jitter keeps clients that failed together from coming back together. An owner that counts its failures itself uses
/// [`Self::after_ms`]; the others let the backoff count, with [`Self::next_ms`] and [`Self::reset`].
#[derive(Debug, Clone)]
pub struct Backoff {
    first_ms: i64,
    max_ms: i64,
    failures: u32,
}

impl Backoff {
    /// A first wait above the maximum is cut to the maximum, as in Kafka.
    pub fn new(first_ms: i64, max_ms: i64) -> Self {
        let max_ms = max_ms.max(0);
        Self {
            first_ms: first_ms.clamp(0, max_ms),
            max_ms,
            failures: 0,
        }
    }

    /// The wait after this many failures in a row; 0 after none.
    pub fn after_ms(&self, failures: u32, random: &mut Random) -> i64 {
        let Some(doublings) = failures.checked_sub(1) else {
            return 0;
        };
        let factor = 1_i64 << doublings.min(62);
        let plain = self.first_ms.saturating_mul(factor).min(self.max_ms);
        let jitter = plain / JITTER_PART;
        let spread = u64::try_from(2 * jitter + 1).unwrap_or(1);
        let wait = (plain - jitter).saturating_add(i64::try_from(random.below(spread)).unwrap_or(0));
        wait.min(self.max_ms)
    }

    /// Counts a failure and returns the wait that follows it.
    pub fn next_ms(&mut self, random: &mut Random) -> i64 {
        self.failures = self.failures.saturating_add(1);
        self.after_ms(self.failures, random)
    }

    /// Starts again at the first wait, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_are_spread_by_a_fifth() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let mut backoff = Backoff::new(100, 1_000);
            for (failures, plain) in (1..).zip([100, 200, 400, 800, 1_000, 1_000]) {
                let fits = |wait: i64| wait >= plain * 4 / 5 && wait <= (plain * 6 / 5).min(1_000);
                let counted = backoff.next_ms(&mut random);
                assert!(fits(counted), "{counted} for {plain}");
                let wait = backoff.after_ms(failures, &mut random);
                assert!(fits(wait), "{wait} for {plain}");
            }
            backoff.reset();
            assert!(backoff.next_ms(&mut random) <= 120);
        }
        assert!(Backoff::new(100, i64::MAX).after_ms(u32::MAX, &mut random) > 0);
    }

    #[test]
    fn there_is_no_wait_without_a_failure() {
        assert_eq!(Backoff::new(100, 1_000).after_ms(0, &mut Random::new(1)), 0);
    }

    #[test]
    fn the_wait_is_not_the_same_twice() {
        let backoff = Backoff::new(1_000, 100_000);
        let mut random = Random::new(1);
        let first = backoff.after_ms(1, &mut random);
        assert!((0..100).any(|_| backoff.after_ms(1, &mut random) != first));
    }

    #[test]
    fn a_first_wait_above_the_maximum_is_the_maximum() {
        let mut random = Random::new(1);
        assert!(Backoff::new(500, 100).after_ms(1, &mut random) <= 100);
        assert_eq!(Backoff::new(0, 0).after_ms(3, &mut random), 0);
    }
}

//! How long to wait before the next try.

use crate::Random;

/// Twice as long each time up to a maximum, and by up to a fifth shorter or longer, so that clients that failed together do
/// not come back together.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first_ms: i64,
    max_ms: i64,
    tries: u32,
}

impl Backoff {
    pub(crate) fn new(first_ms: i64, max_ms: i64) -> Self {
        let first_ms = first_ms.max(0);
        Self {
            first_ms,
            max_ms: max_ms.max(first_ms),
            tries: 0,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }

    pub(crate) fn next_ms(&mut self, random: &mut Random) -> i64 {
        let doubled = 1_i64.checked_shl(self.tries.min(62)).unwrap_or(i64::MAX);
        let plain = self.first_ms.saturating_mul(doubled).min(self.max_ms);
        self.tries = self.tries.saturating_add(1);
        let fifth = plain / 5;
        let spread = u64::try_from(2 * fifth + 1).unwrap_or(1);
        let moved = (plain - fifth).saturating_add(i64::try_from(random.below(spread)).unwrap_or(0));
        moved.min(self.max_ms)
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
            for plain in [100, 200, 400, 800, 1_000, 1_000] {
                let wait = backoff.next_ms(&mut random);
                assert!(
                    wait >= plain * 4 / 5 && wait <= (plain * 6 / 5).min(1_000),
                    "{wait} for {plain}"
                );
            }
            backoff.reset();
            assert!(backoff.next_ms(&mut random) <= 120);
        }
        let mut late = Backoff::new(100, i64::MAX);
        late.tries = u32::MAX;
        assert!(late.next_ms(&mut random) > 0);
    }
}

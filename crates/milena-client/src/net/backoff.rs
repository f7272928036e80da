//! Waiting longer after each failure.

use milena_machines::Random;

const BASE: f64 = 2.0;
const JITTER: f64 = 0.2;

/// Grows by two with each failure up to a limit, and differs by a fifth, so that clients that failed together do not
/// come back together.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first_ms: i64,
    max_ms: i64,
}

impl Backoff {
    pub(crate) fn new(first_ms: i64, max_ms: i64) -> Self {
        Self {
            first_ms: first_ms.clamp(0, max_ms.max(0)),
            max_ms: max_ms.max(0),
        }
    }

    /// How long to wait after so many failures; nothing after none.
    pub(crate) fn after(&self, failures: u32, random: &mut Random) -> i64 {
        match failures {
            0 => 0,
            _ => self.step(failures - 1, random),
        }
    }

    /// The wait that belongs to step `step`, beginning with 0.
    pub(crate) fn step(&self, step: u32, random: &mut Random) -> i64 {
        let exponent = i32::try_from(step).unwrap_or(i32::MAX).min(60);
        let term = (self.first_ms as f64 * BASE.powi(exponent)).min(self.max_ms as f64);
        // In [0, 1), of 53 random bits.
        let fraction = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let jittered = term * (1.0 - JITTER + 2.0 * JITTER * fraction);
        (jittered as i64).min(self.max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_with_jitter_up_to_the_limit() {
        let backoff = Backoff::new(50, 1000);
        let mut random = Random::new(7);
        assert_eq!(backoff.after(0, &mut random), 0);
        for (failures, middle) in [(1, 50), (2, 100), (3, 200), (5, 800)] {
            for _ in 0..100 {
                let wait = backoff.after(failures, &mut random);
                assert!(
                    wait >= middle * 8 / 10 && wait <= middle * 12 / 10,
                    "{failures}: {wait}"
                );
            }
        }
        for failures in [6, 60, u32::MAX] {
            let wait = backoff.after(failures, &mut random);
            assert!((800..=1000).contains(&wait), "{failures}: {wait}");
        }
    }

    #[test]
    fn it_is_not_the_same_twice() {
        let backoff = Backoff::new(1000, 100_000);
        let mut random = Random::new(1);
        let first = backoff.after(1, &mut random);
        assert!((0..100).any(|_| backoff.after(1, &mut random) != first));
    }

    #[test]
    fn a_first_wait_above_the_limit_is_the_limit() {
        let mut random = Random::new(1);
        assert!(Backoff::new(500, 100).after(1, &mut random) <= 100);
        assert_eq!(Backoff::new(0, 0).after(3, &mut random), 0);
    }
}

//! Rate limits: records per second, with bursts.

use crate::app::RateConfig;

const NS_PER_MS: i64 = 1_000_000;

/// The generic cell rate algorithm: its only state is the time when all permits taken would be evenly spread.
#[derive(Debug, Clone)]
pub struct Rate {
    interval_ns: i64,
    burst_ns: i64,
    /// The time of the next record without any burst.
    due_ns: i64,
}

impl Rate {
    pub fn new(config: RateConfig) -> Self {
        let per_second = i64::from(config.per_second.max(1));
        let interval_ns = (1_000 * NS_PER_MS / per_second).max(1);
        // Time has a resolution of a millisecond, so the records of one come at once.
        let burst = i64::from(config.burst.max(config.per_second.div_ceil(1_000)).max(1));
        Self {
            interval_ns,
            burst_ns: interval_ns.saturating_mul(burst),
            due_ns: i64::MIN,
        }
    }

    /// The number of records that may begin now.
    pub fn available(&self, now_ms: i64) -> u32 {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        let ahead = self.due_ns.max(now_ns) - now_ns;
        u32::try_from((self.burst_ns - ahead).max(0) / self.interval_ns).unwrap_or(u32::MAX)
    }

    /// Takes permits.
    pub fn take(&mut self, now_ms: i64, count: u32) {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        let taken = self.interval_ns.saturating_mul(i64::from(count));
        self.due_ns = self.due_ns.max(now_ns).saturating_add(taken);
    }

    /// The time when the next record may begin.
    pub fn next_ms(&self) -> i64 {
        let next_ns = self
            .due_ns
            .saturating_add(self.interval_ns)
            .saturating_sub(self.burst_ns);
        next_ns
            .div_euclid(NS_PER_MS)
            .saturating_add(i64::from(next_ns.rem_euclid(NS_PER_MS) > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_an_even_flow() {
        let mut rate = Rate::new(RateConfig {
            per_second: 500,
            burst: 10,
        });
        assert_eq!(rate.available(1_000), 10);
        rate.take(1_000, 10);
        assert_eq!((rate.available(1_000), rate.next_ms()), (0, 1_002));
        assert_eq!((rate.available(1_001), rate.available(1_002)), (0, 1));
        assert_eq!(rate.available(1_008), 4);
        assert_eq!(rate.available(9_000), 10);
    }

    #[test]
    fn no_second_has_more_than_the_rate_and_a_burst() {
        for (per_second, burst) in [(1, 1), (7, 3), (3_000, 100), (2_000_000, 1_000)] {
            let mut rate = Rate::new(RateConfig { per_second, burst });
            let mut taken = 0_u64;
            for now_ms in 0..3_000 {
                let count = rate.available(now_ms);
                rate.take(now_ms, count);
                taken += u64::from(count);
                assert!(count > 0 || rate.next_ms() > now_ms);
            }
            let burst = burst.max(per_second.div_ceil(1_000));
            let most = u64::from(per_second) * 3 + u64::from(burst);
            assert!(
                taken <= most && taken + u64::from(per_second / 100 + burst + 1) >= most - u64::from(burst),
                "{taken}"
            );
        }
    }
}

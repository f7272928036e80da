//! Properties over many seeds: the rate against a plain model, and the rate that a throttled client reaches.

use milena_machines::{
    Random,
    quota::{ClientName, ClientQuotas, QuotaKey, QuotaTable, Rate, Window},
};

use super::entity;

/// Kafka's definition, over all events that were ever recorded: samples begin with the first event after the end of the one
/// before, and count while their last event is in the window.
#[derive(Default)]
struct Model {
    /// Start, last event, sum.
    samples: Vec<(i64, i64, f64)>,
}

impl Model {
    fn record(&mut self, window: Window, value: f64, now_ms: i64) {
        match self.samples.last_mut() {
            Some(last) if now_ms - last.0 < window.sample_ms && now_ms - last.1 < window.span_ms() => {
                (last.1, last.2) = (now_ms, last.2 + value);
            }
            _ => self.samples.push((now_ms, now_ms, value)),
        }
    }

    fn measure(&self, window: Window, now_ms: i64) -> f64 {
        let kept = window.samples as usize + 1;
        let recent = &self.samples[self.samples.len().saturating_sub(kept)..];
        let live: Vec<_> = recent
            .iter()
            .filter(|sample| now_ms - sample.1 < window.span_ms())
            .collect();
        let oldest = live.iter().map(|sample| sample.0).min().unwrap_or(now_ms);
        let elapsed = now_ms - oldest;
        let full = elapsed / window.sample_ms;
        let missing = (i64::from(window.samples) - 1 - full).max(0);
        let span = (elapsed + missing * window.sample_ms).max(1);
        live.iter().map(|sample| sample.2).sum::<f64>() / (span as f64 / 1000.0)
    }
}

#[test]
fn a_rate_equals_its_definition() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let window = Window {
            samples: 1 + random.below(12) as u32,
            sample_ms: 1 + random.below(2_000) as i64,
        };
        let (mut rate, mut model, mut now_ms) = (Rate::default(), Model::default(), random.below(1 << 40) as i64);
        for _ in 0..60 {
            now_ms += match random.below(10) {
                0 => random.below(3 * window.span_ms() as u64) as i64,
                _ => random.below(window.sample_ms as u64 + 1) as i64,
            };
            let value = random.below(1 << 20) as f64;
            rate.record(window, value, now_ms);
            model.record(window, value, now_ms);
            let (measured, expected) = (rate.measure(window, now_ms), model.measure(window, now_ms));
            assert!(
                (measured - expected).abs() <= expected * 1e-9,
                "seed {seed}: {measured} {expected}"
            );
        }
    }
}

#[test]
fn a_client_that_pauses_as_told_keeps_its_quota() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let quota = 1.0 + random.below(50_000_000) as f64;
        let mut table = QuotaTable::default();
        let quotas = [(QuotaKey::ProducerByteRate, quota)];
        table.set(entity(&[("user", None)]), quotas.into_iter().collect());
        let mut quotas = ClientQuotas::new(QuotaKey::ProducerByteRate, Window::default(), 10);
        quotas.set_limits(table.limits(QuotaKey::ProducerByteRate));
        let client = ClientName {
            user: "u",
            client_id: "c",
        };
        let (mut now_ms, mut total) = (0, 0.0);
        let end_ms = 300_000;
        while now_ms < end_ms {
            let size = 1.0 + random.below((quota / 10.0) as u64) as f64;
            total += size;
            now_ms += quotas.record(client, size, now_ms) + 1 + random.below(20) as i64;
        }
        let reached = total / (now_ms as f64 / 1000.0);
        // A window of usage may come before the first pause.
        assert!(reached <= quota * 1.06, "seed {seed}: {reached} of {quota}");
        assert!(reached >= quota * 0.90, "seed {seed}: {reached} of {quota}");
    }
}

#[test]
fn a_strict_quota_never_grants_more_than_burst_and_rate() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let quota = 1.0 + random.below(100) as f64;
        let mut table = QuotaTable::default();
        let quotas = [(QuotaKey::ControllerMutationRate, quota)];
        table.set(entity(&[("client-id", None)]), quotas.into_iter().collect());
        let mut quotas = ClientQuotas::new(QuotaKey::ControllerMutationRate, Window::default(), 10);
        quotas.set_limits(table.limits(QuotaKey::ControllerMutationRate));
        let client = ClientName {
            user: "u",
            client_id: "c",
        };
        let (mut now_ms, mut granted, mut largest) = (0_i64, 0.0, 0.0_f64);
        for _ in 0..300 {
            let permits = random.below(200) as f64;
            match quotas.record_strictly(client, permits, now_ms) {
                Ok(()) => (granted, largest) = (granted + permits, largest.max(permits)),
                Err(wait_ms) => {
                    assert!(wait_ms > 0);
                    // The time that is told suffices, but for rounding.
                    if random.below(2) == 0 {
                        now_ms += wait_ms + 1;
                        assert_eq!(quotas.record_strictly(client, 0.0, now_ms), Ok(()), "seed {seed}");
                    }
                }
            }
            now_ms += random.below(500) as i64;
        }
        let most = quota * 11.0 + quota * now_ms as f64 / 1000.0 + largest;
        assert!(granted <= most, "seed {seed}: {granted} of {most}");
    }
}

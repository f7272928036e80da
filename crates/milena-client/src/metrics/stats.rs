//! Statistics over sliding windows, as in Kafka's clients.

use std::collections::VecDeque;

/// The windows: `metrics.num.samples` of `metrics.sample.window.ms`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) samples: usize,
    pub(crate) length_ms: i64,
}

/// The values of one window.
#[derive(Debug, Clone, Copy)]
struct Sample {
    start_ms: i64,
    count: u64,
    sum: f64,
    max: f64,
    min: f64,
}

/// A measured quantity: recent windows and totals.
#[derive(Debug, Clone)]
pub(crate) struct Sensor {
    window: Window,
    samples: VecDeque<Sample>,
    total: f64,
    times: u64,
}

impl Sensor {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            samples: VecDeque::new(),
            total: 0.0,
            times: 0,
        }
    }

    pub(crate) fn record(&mut self, now_ms: i64, value: f64) {
        self.total += value;
        self.times += 1;
        let is_over = |sample: &Sample| now_ms - sample.start_ms >= self.window.length_ms;
        if self.samples.back().is_none_or(is_over) {
            if self.samples.len() >= self.window.samples.max(1) {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample {
                start_ms: now_ms,
                count: 0,
                sum: 0.0,
                max: f64::NEG_INFINITY,
                min: f64::INFINITY,
            });
        }
        if let Some(sample) = self.samples.back_mut() {
            sample.count += 1;
            sample.sum += value;
            sample.max = sample.max.max(value);
            sample.min = sample.min.min(value);
        }
    }

    /// The sum of all values.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// The number of values.
    pub(crate) fn times(&self) -> f64 {
        self.times as f64
    }

    fn recent(&self, now_ms: i64) -> impl Iterator<Item = &Sample> {
        let oldest_ms = now_ms - self.window.length_ms * self.window.samples as i64;
        self.samples.iter().filter(move |sample| sample.start_ms > oldest_ms)
    }

    /// NaN without values, as in Kafka.
    pub(crate) fn avg(&self, now_ms: i64) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        for sample in self.recent(now_ms) {
            sum += sample.sum;
            count += sample.count;
        }
        if count == 0 { f64::NAN } else { sum / count as f64 }
    }

    pub(crate) fn max(&self, now_ms: i64) -> f64 {
        self.recent(now_ms)
            .map(|sample| sample.max)
            .reduce(f64::max)
            .unwrap_or(f64::NAN)
    }

    pub(crate) fn min(&self, now_ms: i64) -> f64 {
        self.recent(now_ms)
            .map(|sample| sample.min)
            .reduce(f64::min)
            .unwrap_or(f64::NAN)
    }

    /// The sum of values per second.
    pub(crate) fn rate(&self, now_ms: i64) -> f64 {
        let sum: f64 = self.recent(now_ms).map(|sample| sample.sum).sum();
        sum * 1000.0 / self.elapsed_ms(now_ms)
    }

    /// The number of values per second.
    pub(crate) fn frequency(&self, now_ms: i64) -> f64 {
        let count: u64 = self.recent(now_ms).map(|sample| sample.count).sum();
        count as f64 * 1000.0 / self.elapsed_ms(now_ms)
    }

    /// The time span of a rate. A new client has not lived for all windows; as in Kafka, all but the last count as
    /// complete, so that the first values do not give a huge rate.
    fn elapsed_ms(&self, now_ms: i64) -> f64 {
        let Window { samples, length_ms } = self.window;
        let oldest_ms = self.recent(now_ms).map(|sample| sample.start_ms).min();
        let elapsed_ms = now_ms - oldest_ms.unwrap_or(now_ms);
        let missing = (samples as i64 - 1 - elapsed_ms / length_ms.max(1)).max(0);
        ((elapsed_ms + missing * length_ms) as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        samples: 2,
        length_ms: 1_000,
    };

    #[test]
    fn only_the_last_windows_count() {
        let mut sensor = Sensor::new(WINDOW);
        assert!(sensor.avg(0).is_nan() && sensor.max(0).is_nan());
        sensor.record(0, 10.0);
        sensor.record(500, 20.0);
        sensor.record(1_000, 60.0);
        assert_eq!(
            (sensor.avg(1_500), sensor.max(1_500), sensor.min(1_500)),
            (30.0, 60.0, 10.0)
        );
        // The first window has expired.
        assert_eq!((sensor.avg(2_000), sensor.min(2_000)), (60.0, 60.0));
        assert!(sensor.avg(3_000).is_nan());
        assert_eq!((sensor.total(), sensor.times()), (90.0, 3.0));
    }

    #[test]
    fn a_rate_counts_windows_that_have_not_been_as_whole() {
        let mut sensor = Sensor::new(WINDOW);
        sensor.record(0, 100.0);
        // At least one window, though only half of it has passed.
        assert_eq!(sensor.rate(500), 100.0 * 1_000.0 / 1_500.0);
        sensor.record(1_000, 100.0);
        assert_eq!(sensor.rate(1_500), 200.0 * 1_000.0 / 1_500.0);
        assert_eq!(sensor.frequency(1_500), 2.0 * 1_000.0 / 1_500.0);
    }
}

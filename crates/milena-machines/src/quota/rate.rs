//! The rate of a quantity over a sliding window of samples, as Kafka computes it.

/// The samples of a rate: their number, and the time span of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub samples: u32,
    pub sample_ms: i64,
}

impl Window {
    /// The span of all samples.
    pub fn span_ms(self) -> i64 {
        i64::from(self.samples).saturating_mul(self.sample_ms)
    }

    /// The span of all samples but the current one, in seconds: a rate is never computed over less.
    pub fn full_seconds(self) -> f64 {
        f64::from(self.samples.saturating_sub(1)) * self.sample_ms as f64 / 1000.0
    }
}

/// `quota.window.num` and `quota.window.size.seconds` have these defaults.
impl Default for Window {
    fn default() -> Self {
        Self {
            samples: 11,
            sample_ms: 1000,
        }
    }
}

/// A sum over recent samples, divided by the time that they span.
///
/// A sample begins with the first value after the end of the one before. There is one sample more than the window has, because
/// the oldest one may overlap the start of the window.
#[derive(Debug, Clone, Default)]
pub struct Rate {
    samples: Vec<Sample>,
    current: usize,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    value: f64,
    start_ms: i64,
    last_ms: i64,
}

impl Sample {
    fn new(now_ms: i64) -> Self {
        Self {
            value: 0.0,
            start_ms: now_ms,
            last_ms: now_ms,
        }
    }
}

impl Rate {
    /// Adds a value; a negative one takes back an earlier one.
    pub fn record(&mut self, window: Window, value: f64, now_ms: i64) {
        let is_complete = match self.samples.get(self.current) {
            Some(sample) => now_ms - sample.start_ms >= window.sample_ms,
            None => false,
        };
        if is_complete {
            self.current = (self.current + 1) % (window.samples as usize + 1);
            if let Some(reused) = self.samples.get_mut(self.current) {
                *reused = Sample::new(now_ms);
            }
        }
        if self.current >= self.samples.len() {
            self.current = self.samples.len();
            self.samples.push(Sample::new(now_ms));
        }
        if let Some(sample) = self.samples.get_mut(self.current) {
            sample.value += value;
            sample.last_ms = now_ms;
        }
    }

    /// The rate per second.
    pub fn measure(&mut self, window: Window, now_ms: i64) -> f64 {
        let span_ms = self.span_ms(window, now_ms);
        let sum: f64 = self.samples.iter().map(|sample| sample.value).sum();
        sum / (span_ms as f64 / 1000.0)
    }

    /// The time that the rate is computed over: since the start of the oldest sample, and at least all full samples.
    pub fn span_ms(&mut self, window: Window, now_ms: i64) -> i64 {
        self.purge(window, now_ms);
        let oldest_ms = self.samples.iter().map(|sample| sample.start_ms).min();
        let elapsed_ms = now_ms - oldest_ms.unwrap_or(now_ms);
        let full = elapsed_ms.checked_div(window.sample_ms).unwrap_or(0);
        let missing = (i64::from(window.samples) - 1 - full).max(0);
        (elapsed_ms + missing.saturating_mul(window.sample_ms)).max(1)
    }

    /// Whether nothing of it is left in the window: it then equals a new rate.
    pub fn is_idle(&self, window: Window, now_ms: i64) -> bool {
        let is_old = |sample: &Sample| now_ms - sample.last_ms >= window.span_ms();
        self.samples.iter().all(is_old)
    }

    /// Empties samples without a value inside the window.
    fn purge(&mut self, window: Window, now_ms: i64) {
        let age_max = window.span_ms();
        for sample in self.samples.iter_mut() {
            if now_ms - sample.last_ms >= age_max {
                *sample = Sample::new(now_ms);
            }
        }
    }
}

/// The pause after which a rate is down to its quota, if nothing more is recorded: `rate · span / (span + pause) = quota`.
pub fn throttle_ms(rate: f64, quota: f64, span_ms: i64) -> i64 {
    // A cast from floating point saturates, so a quota near zero gives the longest pause.
    ((rate - quota) / quota * span_ms as f64).round() as i64
}

//! The DLQ limit: stops a partition that produces too many dead letters. When most records fail for good, the cause is not
//! the records, and the partition should not be emptied into the dead letter topic.

use std::collections::VecDeque;

use super::DlqLimitConfig;

#[derive(Debug, Clone)]
pub struct DlqLimit {
    config: DlqLimitConfig,
    /// The last records: `true` for a dead letter.
    window: VecDeque<bool>,
    failed: u32,
    in_row: u32,
}

impl DlqLimit {
    pub fn new(config: DlqLimitConfig) -> Self {
        Self {
            config,
            window: VecDeque::new(),
            failed: 0,
            in_row: 0,
        }
    }

    /// Counts a record that is done, or failed for good. Returns whether the limit is exceeded.
    pub fn record(&mut self, failed: bool) -> bool {
        self.window.push_back(failed);
        self.failed += u32::from(failed);
        self.in_row = if failed { self.in_row.saturating_add(1) } else { 0 };
        if self.window.len() > self.config.window as usize {
            self.failed -= u32::from(self.window.pop_front() == Some(true));
        }
        let full = self.window.len() >= self.config.window as usize;
        let share = u64::from(self.failed) * 100 > u64::from(self.config.percent) * self.window.len() as u64;
        failed && (self.in_row >= self.config.consecutive || full && share)
    }

    /// Restarts the counting after an operator has restarted the partition.
    pub fn reset(&mut self) {
        *self = Self::new(self.config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: DlqLimitConfig = DlqLimitConfig {
        percent: 50,
        window: 10,
        consecutive: 4,
    };

    #[test]
    fn too_many_in_a_row() {
        let mut dlq_limit = DlqLimit::new(CONFIG);
        let tripped = [true, true, true, false, true, true, true, true].map(|failed| dlq_limit.record(failed));
        assert_eq!(tripped, [false, false, false, false, false, false, false, true]);
        dlq_limit.reset();
        assert!(!dlq_limit.record(true));
    }

    #[test]
    fn too_large_a_share_of_a_full_window() {
        let mut dlq_limit = DlqLimit::new(CONFIG);
        // Three of five fail, never four in a row.
        let pattern = [true, false, true, true, false];
        let tripped: Vec<bool> = (0..12).map(|n| dlq_limit.record(pattern[n % 5])).collect();
        assert_eq!(tripped.iter().position(|tripped| *tripped), Some(10));
        let mut half = DlqLimit::new(CONFIG);
        assert!((0..100).all(|n| !half.record(n % 2 == 0)));
    }
}

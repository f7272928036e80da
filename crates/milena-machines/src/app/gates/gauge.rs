//! Gauges: buffered records and bytes against their limits.

use crate::app::Limits;

/// The size of a record or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) records: u32,
    pub(crate) bytes: u32,
}

/// A gauge is over from a high mark on, until it is down to its low marks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gauge {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    over: bool,
}

impl Gauge {
    #[inline]
    pub(crate) fn add(&mut self, size: Size) {
        self.records += u64::from(size.records);
        self.bytes += u64::from(size.bytes);
    }

    #[inline]
    pub(crate) fn remove(&mut self, size: Size) {
        self.records = self.records.saturating_sub(u64::from(size.records));
        self.bytes = self.bytes.saturating_sub(u64::from(size.bytes));
    }

    /// Returns whether it is over now, if that has changed.
    #[inline]
    pub(crate) fn check(&mut self, limits: &Limits) -> Option<bool> {
        let over = if self.over {
            self.records > limits.records_low || self.bytes > limits.bytes_low
        } else {
            self.records >= limits.records_high || self.bytes >= limits.bytes_high
        };
        let changed = over != self.over;
        self.over = over;
        changed.then_some(over)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}

impl Limits {
    /// A share of the limits.
    pub(crate) fn percent(&self, percent: u64) -> Self {
        let share = |value: u64| (u128::from(value) * u128::from(percent) / 100) as u64;
        Self {
            records_high: share(self.records_high).max(1),
            records_low: share(self.records_low),
            bytes_high: share(self.bytes_high).max(1),
            bytes_low: share(self.bytes_low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_from_the_high_mark_down_to_the_low_one() {
        let limits = Limits {
            records_high: 10,
            records_low: 7,
            bytes_high: 1_000,
            bytes_low: 500,
        };
        let mut gauge = Gauge::default();
        let one = |bytes| Size { records: 1, bytes };
        for _ in 0..9 {
            gauge.add(one(1));
            assert_eq!(gauge.check(&limits), None);
        }
        gauge.add(one(1));
        assert_eq!(gauge.check(&limits), Some(true));
        gauge.remove(one(1));
        gauge.remove(one(1));
        assert_eq!(gauge.check(&limits), None);
        gauge.remove(one(1));
        assert_eq!(gauge.check(&limits), Some(false));
        gauge.add(one(993));
        assert_eq!(gauge.check(&limits), Some(true));
        assert!(gauge.is_over());
    }
}

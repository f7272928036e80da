//! Settings of a relay.

/// Settings of a relay; the times of a lease follow from its duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayConfig {
    /// Number of slots of the table.
    pub slots: u16,
    /// The most rows of one read.
    pub batch_rows: usize,
    /// The most rows in memory, from the read to the mark.
    pub window_rows: usize,
    /// The most payload bytes in memory, but for the last row of a read.
    pub window_bytes: u64,
    /// Time between reads of an idle relay.
    pub poll_ms: i64,
    /// Time between reads while rows arrive.
    pub pace_ms: i64,
    pub lease_ms: i64,
    /// First and longest wait before a refused event is tried again.
    pub retry_ms: i64,
    pub retry_ms_max: i64,
    /// Time between clean-ups; `None` for no clean-up.
    pub clean_ms: Option<i64>,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            slots: 256,
            batch_rows: 100,
            window_rows: 1_000,
            window_bytes: 8 << 20,
            poll_ms: 100,
            pace_ms: 5,
            lease_ms: 15_000,
            retry_ms: 1_000,
            retry_ms_max: 60_000,
            clean_ms: Some(3_600_000),
        }
    }
}

impl RelayConfig {
    /// Bound of the time from sending an event to its result.
    pub fn delivery_ms(&self) -> i64 {
        self.lease_ms / 3
    }

    /// Time after the beginning of a renewal until which events may be sent. Half of the lease is left: a third for
    /// deliveries, and a sixth for requests that are still on their way to the broker.
    pub(super) fn send_ms(&self) -> i64 {
        self.lease_ms / 2
    }

    /// Time between renewals, which is also the time after which released slots are noticed.
    pub(super) fn renew_ms(&self) -> i64 {
        (self.lease_ms / 8).clamp(1, 1_000)
    }
}

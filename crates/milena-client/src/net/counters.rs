//! Network counters for the metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one connection, or of all connections of a client. Updated per request, never per record.
#[derive(Debug, Default)]
pub(super) struct Counters {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    requests: AtomicU64,
    responses: AtomicU64,
    latency_us_total: AtomicU64,
    latency_us_max: AtomicU64,
    throttled_ms: AtomicU64,
    connections_made: AtomicU64,
    connections_closed: AtomicU64,
    connections_failed: AtomicU64,
    authentications: AtomicU64,
    authentications_failed: AtomicU64,
    reauthentications: AtomicU64,
    reauthentications_failed: AtomicU64,
    reauthentication_ms_total: AtomicU64,
    reauthentication_ms_max: AtomicU64,
}

impl Counters {
    pub(super) fn sent(&self, bytes: usize) {
        self.requests.fetch_add(1, Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn received(&self, bytes: usize, latency_us: u64) {
        self.responses.fetch_add(1, Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.latency_us_total.fetch_add(latency_us, Relaxed);
        self.latency_us_max.fetch_max(latency_us, Relaxed);
    }

    pub(super) fn throttled(&self, ms: u64) {
        self.throttled_ms.fetch_add(ms, Relaxed);
    }

    pub(super) fn connected(&self) {
        self.connections_made.fetch_add(1, Relaxed);
    }

    pub(super) fn closed(&self) {
        self.connections_closed.fetch_add(1, Relaxed);
    }

    pub(super) fn connect_failed(&self) {
        self.connections_failed.fetch_add(1, Relaxed);
    }

    pub(super) fn authenticated(&self) {
        self.authentications.fetch_add(1, Relaxed);
    }

    pub(super) fn authentication_failed(&self) {
        self.authentications_failed.fetch_add(1, Relaxed);
    }

    pub(super) fn reauthenticated(&self, ms: u64) {
        self.reauthentications.fetch_add(1, Relaxed);
        self.reauthentication_ms_total.fetch_add(ms, Relaxed);
        self.reauthentication_ms_max.fetch_max(ms, Relaxed);
    }

    pub(super) fn reauthentication_failed(&self) {
        self.reauthentications_failed.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> Numbers {
        Numbers {
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            requests: self.requests.load(Relaxed),
            responses: self.responses.load(Relaxed),
            latency_us_total: self.latency_us_total.load(Relaxed),
            latency_us_max: self.latency_us_max.load(Relaxed),
            throttled_ms: self.throttled_ms.load(Relaxed),
            connections_made: self.connections_made.load(Relaxed),
            connections_closed: self.connections_closed.load(Relaxed),
            connections_failed: self.connections_failed.load(Relaxed),
            authentications: self.authentications.load(Relaxed),
            authentications_failed: self.authentications_failed.load(Relaxed),
            reauthentications: self.reauthentications.load(Relaxed),
            reauthentications_failed: self.reauthentications_failed.load(Relaxed),
            reauthentication_ms_total: self.reauthentication_ms_total.load(Relaxed),
            reauthentication_ms_max: self.reauthentication_ms_max.load(Relaxed),
        }
    }
}

/// A snapshot of [`Counters`]. All values only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Numbers {
    /// Bytes of responses, with their length fields.
    pub(crate) bytes_in: u64,
    /// Bytes of requests, with their length fields.
    pub(crate) bytes_out: u64,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    /// Sum over all responses, from writing the request to the socket until the whole response was read.
    pub(crate) latency_us_total: u64,
    pub(crate) latency_us_max: u64,
    /// Time for which brokers asked the client not to send.
    pub(crate) throttled_ms: u64,
    pub(crate) connections_made: u64,
    pub(crate) connections_closed: u64,
    /// Failed connection attempts.
    pub(crate) connections_failed: u64,
    /// Log-ins with SASL; those that renew a session count separately.
    pub(crate) authentications: u64,
    /// Refused log-ins and certificates.
    pub(crate) authentications_failed: u64,
    pub(crate) reauthentications: u64,
    pub(crate) reauthentications_failed: u64,
    pub(crate) reauthentication_ms_total: u64,
    pub(crate) reauthentication_ms_max: u64,
}

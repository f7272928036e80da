//! Metrics: counters of requests and bytes, and the Prometheus endpoint that shows them beside the state of the node.
//!
//! Names are those of Kafka's JMX metrics as the JMX exporter writes them, and of kafka_exporter; metrics that neither of
//! them has begin with `milena_`. Recording is a few relaxed atomic additions per request: no lock, no allocation.

mod collect;
mod endpoint;
mod histogram;
mod listeners;
mod quotas;
mod text;

pub(crate) use endpoint::{CONNECTIONS_MAX, serve};
pub(crate) use listeners::ListenerMetrics;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use milena_wire::{api::ApiKey, errors::ErrorCode};

use self::histogram::Histogram;

/// The counters of a broker.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// By the id of the API.
    requests: Box<[RequestMetrics]>,
    /// Bytes read from and written to sockets.
    incoming_bytes: AtomicU64,
    outgoing_bytes: AtomicU64,
    connections_created: AtomicU64,
    connections_closed: AtomicU64,
}

/// The counters of one API.
#[derive(Debug, Default)]
struct RequestMetrics {
    /// From the end of the request's frame to the end of its response.
    total_time: Histogram,
    /// By error code + 1, the smallest being -1. Allocated with the first error.
    errors: OnceLock<Box<[AtomicU64]>>,
}

/// The counters of one partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionMetrics {
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) messages_in: AtomicU64,
}

/// The count of one open connection; dropping it counts the close.
#[derive(Debug)]
pub(crate) struct OpenConnection<'a>(&'a Metrics);

impl Default for Metrics {
    fn default() -> Self {
        let apis = ApiKey::ALL.iter().map(|key| index_of(*key) + 1).max().unwrap_or(0);
        Self {
            requests: (0..apis).map(|_| RequestMetrics::default()).collect(),
            incoming_bytes: AtomicU64::new(0),
            outgoing_bytes: AtomicU64::new(0),
            connections_created: AtomicU64::new(0),
            connections_closed: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    pub(crate) fn connection_opened(&self) -> OpenConnection<'_> {
        self.connections_created.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self)
    }

    pub(crate) fn bytes_received(&self, bytes: usize) {
        self.incoming_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn bytes_sent(&self, bytes: usize) {
        self.outgoing_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records a request that has ended, with the error codes of its response.
    pub(crate) fn request_ended(&self, key: ApiKey, total_time: Duration, errors: &[i16]) {
        let Some(metrics) = self.requests.get(index_of(key)) else {
            return;
        };
        metrics.total_time.record(total_time);
        for code in errors {
            metrics.record_error(*code);
        }
    }

    /// The metrics of an API, if it has any.
    fn request(&self, key: ApiKey) -> Option<&RequestMetrics> {
        self.requests.get(index_of(key))
    }
}

impl RequestMetrics {
    fn record_error(&self, code: i16) {
        let errors = self
            .errors
            .get_or_init(|| ErrorCode::ALL.iter().map(|_| AtomicU64::new(0)).collect());
        if let Some(count) = usize::try_from(i32::from(code) + 1).ok().and_then(|at| errors.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The errors that have happened, with their numbers.
    fn errors(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        let errors = self.errors.get().map(|errors| &**errors).unwrap_or_default();
        let counts = errors.iter().map(|count| count.load(Ordering::Relaxed));
        ErrorCode::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }
}

impl PartitionMetrics {
    pub(crate) fn appended(&self, bytes: usize, messages: i64) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        self.messages_in
            .fetch_add(u64::try_from(messages).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn fetched(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.connections_closed.fetch_add(1, Ordering::Relaxed);
    }
}

fn index_of(key: ApiKey) -> usize {
    usize::try_from(key.id()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_api_and_code() {
        let metrics = Metrics::default();
        let codes = [
            ErrorCode::UnknownServerError.code(),
            ErrorCode::OffsetOutOfRange.code(),
            9999,
        ];
        metrics.request_ended(ApiKey::Fetch, Duration::from_millis(3), &codes);
        metrics.request_ended(ApiKey::Fetch, Duration::from_millis(3), &codes);
        let fetch = metrics.request(ApiKey::Fetch).unwrap();
        let errors: Vec<_> = fetch.errors().collect();
        assert_eq!(
            errors,
            [(ErrorCode::UnknownServerError, 2), (ErrorCode::OffsetOutOfRange, 2)]
        );
        assert_eq!(metrics.request(ApiKey::Produce).unwrap().errors().count(), 0);
    }

    #[test]
    fn connections_are_counted_when_they_open_and_when_they_close() {
        let metrics = Metrics::default();
        let first = metrics.connection_opened();
        let second = metrics.connection_opened();
        drop(first);
        assert_eq!(metrics.connections_created.load(Ordering::Relaxed), 2);
        assert_eq!(metrics.connections_closed.load(Ordering::Relaxed), 1);
        drop(second);
    }
}

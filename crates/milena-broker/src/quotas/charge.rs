//! The charge of one request: its bytes, its time and its changes of topics.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytestring::ByteString;
use milena_machines::quota::{ClientName, QuotaKey, Refusable};
use milena_wire::{api::ApiKey, errors::ErrorCode};
use tokio::time::Instant;

use super::Quotas;
use crate::node::Refusal;

/// Percent of one thread for one nanosecond in a second.
const PERCENT_PER_NANOSECOND: f64 = 100.0 / 1e9;

/// The client that a request is charged to, and the time that the request has taken so far.
#[derive(Debug, Clone)]
pub(crate) struct Charge {
    quotas: Arc<Quotas>,
    user: ByteString,
    client_id: ByteString,
    /// `None` if no client has a quota of request time.
    meter: Option<Arc<Meter>>,
}

/// The time that threads have worked for a request.
#[derive(Debug, Default)]
struct Meter {
    nanos: AtomicU64,
    /// When the present piece of work began, in nanoseconds since the start of the quotas, plus 1; 0 for none.
    began: AtomicU64,
}

/// A piece of work for a request; dropping it ends the measurement.
pub(crate) struct Work<'a>(Option<(&'a Meter, Instant)>);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if let Some((meter, began)) = self.0 {
            meter.began.store(0, Ordering::Relaxed);
            let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            meter.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }
}

impl Charge {
    /// The charge of a request; `None` if there is no quota that it could exceed.
    pub(crate) fn new(quotas: &Arc<Quotas>, user: &ByteString, client_id: Option<&ByteString>) -> Option<Self> {
        if !quotas.has_any() {
            return None;
        }
        let meter = quotas.is_enabled(QuotaKey::RequestPercentage).then(Arc::default);
        Some(Self {
            quotas: Arc::clone(quotas),
            user: user.clone(),
            client_id: client_id.cloned().unwrap_or_default(),
            meter,
        })
    }

    /// Begins to measure work of this thread.
    pub(crate) fn work(&self) -> Work<'_> {
        let began = self.meter.as_deref().map(|meter| {
            let now = Instant::now();
            let nanos = (now - self.quotas.start).as_nanos();
            meter
                .began
                .store(u64::try_from(nanos).unwrap_or(0) + 1, Ordering::Relaxed);
            (meter, now)
        });
        Work(began)
    }

    /// Charges a request with a response, and returns the throttle time. `already` is a throttle time that its handler has
    /// decided on.
    pub(crate) fn response(&self, api: ApiKey, request_bytes: usize, already: Duration) -> Duration {
        let bytes_ms = match api {
            ApiKey::Produce => self.record(QuotaKey::ProducerByteRate, request_bytes as f64),
            _ => 0,
        };
        let time_ms = match api {
            // Brokers send these among themselves.
            ApiKey::WriteTxnMarkers => 0,
            _ => self.record_time(),
        };
        let already_ms = i64::try_from(already.as_millis()).unwrap_or(i64::MAX);
        let key = match api {
            ApiKey::Produce => QuotaKey::ProducerByteRate,
            _ => QuotaKey::ControllerMutationRate,
        };
        self.throttle(key, bytes_ms.max(already_ms), time_ms)
    }

    /// Charges a Produce request whose client expects no response. As in Kafka, its time is not charged.
    pub(crate) fn without_response(&self, api: ApiKey, request_bytes: usize) -> Duration {
        let bytes_ms = match api {
            ApiKey::Produce => self.record(QuotaKey::ProducerByteRate, request_bytes as f64),
            _ => 0,
        };
        self.throttle(QuotaKey::ProducerByteRate, bytes_ms, 0)
    }

    /// Charges a Fetch response. An error is the throttle time of a response that must be sent empty, and was not charged.
    pub(crate) fn fetch(&self, response_bytes: usize) -> Result<Duration, Duration> {
        let time_ms = self.record_time();
        let fetched = match self.quotas.of(QuotaKey::ConsumerByteRate) {
            None => Refusable::Accepted { throttle_ms: 0 },
            Some(mut quotas) => quotas.record_refusable(self.client(), response_bytes as f64, self.quotas.now_ms()),
        };
        match fetched {
            Refusable::Accepted { throttle_ms: 0 } if time_ms > 0 => {
                // The time alone is too much: the response is empty, so its bytes do not count.
                if let Some(mut quotas) = self.quotas.of(QuotaKey::ConsumerByteRate) {
                    quotas.record_unchecked(self.client(), -(response_bytes as f64), self.quotas.now_ms());
                }
                Err(self.throttle(QuotaKey::ConsumerByteRate, 0, time_ms))
            }
            Refusable::Accepted { throttle_ms } => Ok(self.throttle(QuotaKey::ConsumerByteRate, throttle_ms, time_ms)),
            Refusable::Refused { throttle_ms } => Err(self.throttle(QuotaKey::ConsumerByteRate, throttle_ms, time_ms)),
        }
    }

    /// The most bytes that a Fetch response can have without being throttled for certain.
    pub(crate) fn fetch_bytes_max(&self) -> Option<usize> {
        let quotas = self.quotas.of(QuotaKey::ConsumerByteRate)?;
        quotas.max_in_window(self.client()).map(|bytes| bytes as usize)
    }

    /// Measures the time in which a future is polled, and charges it to later requests.
    pub(crate) async fn network<T>(&self, work: impl Future<Output = T>) -> T {
        if self.meter.is_none() {
            return work.await;
        }
        let mut work = pin!(work);
        let mut spent = Duration::ZERO;
        let done = poll_fn(|context| {
            let began = Instant::now();
            let polled = work.as_mut().poll(context);
            spent += began.elapsed();
            polled
        })
        .await;
        if let Some(mut quotas) = self.quotas.of(QuotaKey::RequestPercentage) {
            let percent = spent.as_nanos() as f64 * PERCENT_PER_NANOSECOND;
            quotas.record_unchecked(self.client(), percent, self.quotas.now_ms());
        }
        done
    }

    /// Charges the time that the request has taken so far.
    fn record_time(&self) -> i64 {
        let Some(meter) = &self.meter else {
            return 0;
        };
        let running = match meter.began.load(Ordering::Relaxed) {
            0 => 0,
            began => {
                let now = u64::try_from(self.quotas.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                now.saturating_sub(began - 1)
            }
        };
        let nanos = meter.nanos.load(Ordering::Relaxed) + running;
        self.record(QuotaKey::RequestPercentage, nanos as f64 * PERCENT_PER_NANOSECOND)
    }

    fn record(&self, key: QuotaKey, value: f64) -> i64 {
        match self.quotas.of(key) {
            Some(mut quotas) => quotas.record(self.client(), value, self.quotas.now_ms()),
            None => 0,
        }
    }

    /// The longer of two throttle times, counted for the kind of quota that it comes from.
    fn throttle(&self, key: QuotaKey, key_ms: i64, time_ms: i64) -> Duration {
        let (key, throttle_ms) = match key_ms > time_ms {
            true => (key, key_ms),
            false => (QuotaKey::RequestPercentage, time_ms),
        };
        // The field of a response has 31 bits.
        let throttle_ms = u64::try_from(throttle_ms).unwrap_or(0).min(i32::MAX as u64);
        if throttle_ms > 0
            && let Some(mut quotas) = self.quotas.of(key)
        {
            quotas.count_throttle(self.client(), throttle_ms, self.quotas.now_ms());
        }
        Duration::from_millis(throttle_ms)
    }

    fn client(&self) -> ClientName<'_> {
        ClientName {
            user: &self.user,
            client_id: &self.client_id,
        }
    }
}

/// The quota of a request that creates or deletes partitions.
pub(crate) struct MutationPermits<'a> {
    charge: Option<&'a Charge>,
    /// Whether changes are refused while the client is over its quota, rather than only delayed.
    is_strict: bool,
    throttle_time: Duration,
}

impl<'a> MutationPermits<'a> {
    pub(crate) fn new(charge: Option<&'a Charge>, is_strict: bool) -> Self {
        Self {
            charge,
            is_strict,
            throttle_time: Duration::ZERO,
        }
    }

    /// Takes one permit for each partition that is created or deleted.
    pub(crate) fn take(&mut self, partitions: usize) -> Result<(), Refusal> {
        let Some(charge) = self.charge else {
            return Ok(());
        };
        let Some(mut quotas) = charge.quotas.of(QuotaKey::ControllerMutationRate) else {
            return Ok(());
        };
        let (client, permits, now_ms) = (charge.client(), partitions as f64, charge.quotas.now_ms());
        let throttle_ms = match self.is_strict {
            true => quotas.record_strictly(client, permits, now_ms).err().unwrap_or(0),
            false => quotas.record(client, permits, now_ms),
        };
        if throttle_ms == 0 {
            return Ok(());
        }
        self.throttle_time = Duration::from_millis(u64::try_from(throttle_ms).unwrap_or(0));
        match self.is_strict {
            true => Err(Refusal::new(
                ErrorCode::ThrottlingQuotaExceeded,
                "The throttling quota has been exceeded.",
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn throttle_time(&self) -> Duration {
        self.throttle_time
    }
}

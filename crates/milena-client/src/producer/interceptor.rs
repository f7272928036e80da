//! Interceptors of records and acknowledgements.

use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use milena_wire::records::Header;
use tokio::sync::watch;

use super::{
    Delivery, Producer, ProducerRecord, RecordMetadata,
    batch_delivery::{BatchDelivery, WatchOutcome},
    error::SendError,
};
use crate::io::Io;

/// Observes and changes records before they are sent, and observes their outcome. Interceptors run in the order in
/// which they were added and should be quick. If one panics, its change is ignored.
pub trait ProducerInterceptor: Send + Sync {
    /// Called before a record is sent; the returned record replaces it. The partition is not chosen yet. Runs in the
    /// caller's task, and again for a record that `try_enqueue` did not accept.
    fn on_send<'a>(&self, record: OutgoingRecord<'a>) -> OutgoingRecord<'a> {
        record
    }

    /// Called after a record was acknowledged or has failed. Runs on the io thread of all connections, so it must not
    /// block. [`Producer::close`] waits for it.
    fn on_acknowledgement(&self, topic: &str, outcome: Result<&RecordMetadata, &SendError>) {
        let _ = (topic, outcome);
    }
}

/// A record that an interceptor may change.
#[derive(Debug, Clone)]
pub struct OutgoingRecord<'a> {
    pub topic: Cow<'a, str>,
    pub partition: Option<i32>,
    pub key: Option<Cow<'a, [u8]>>,
    pub value: Option<Cow<'a, [u8]>>,
    pub headers: Vec<OutgoingHeader<'a>>,
    pub timestamp: Option<i64>,
}

/// A header of a record that an interceptor may change.
#[derive(Debug, Clone)]
pub struct OutgoingHeader<'a> {
    pub key: Cow<'a, [u8]>,
    pub value: Option<Cow<'a, [u8]>>,
}

impl<'a> OutgoingRecord<'a> {
    fn new(record: ProducerRecord<'a>) -> Self {
        let header = |header: &Header<'a>| OutgoingHeader {
            key: Cow::Borrowed(header.key),
            value: header.value.map(Cow::Borrowed),
        };
        Self {
            topic: Cow::Borrowed(record.topic),
            partition: record.partition,
            key: record.key.map(Cow::Borrowed),
            value: record.value.map(Cow::Borrowed),
            headers: record.headers.iter().map(header).collect(),
            timestamp: record.timestamp,
        }
    }

    /// Appends a header.
    #[must_use]
    pub fn header(mut self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push(OutgoingHeader {
            key: Cow::Owned(key.as_bytes().to_vec()),
            value: Some(Cow::Owned(value.into())),
        });
        self
    }

    pub(super) fn borrowed_headers(&self) -> Vec<Header<'_>> {
        let headers = self.headers.iter().map(|header| Header {
            key: &header.key,
            value: header.value.as_deref(),
        });
        headers.collect()
    }

    pub(super) fn borrowed<'b>(&'b self, headers: &'b [Header<'b>]) -> ProducerRecord<'b> {
        ProducerRecord {
            topic: &self.topic,
            partition: self.partition,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            timestamp: self.timestamp,
        }
    }
}

impl Producer {
    /// Adds an interceptor for this producer and its clones.
    ///
    /// ```no_run
    /// # fn demo(producer: milena_client::producer::Producer) {
    /// use milena_client::producer::{OutgoingRecord, ProducerInterceptor};
    ///
    /// struct Postmark;
    ///
    /// impl ProducerInterceptor for Postmark {
    ///     fn on_send<'a>(&self, record: OutgoingRecord<'a>) -> OutgoingRecord<'a> {
    ///         record.header("office", "Prague")
    ///     }
    /// }
    ///
    /// producer.add_interceptor(Postmark);
    /// # }
    /// ```
    pub fn add_interceptor(&self, interceptor: impl ProducerInterceptor + 'static) {
        let interceptors = &self.shared().interceptors;
        let mut all = interceptors.all.write().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(interceptor));
        interceptors.has_any.store(true, Relaxed);
    }
}

/// The interceptors of a producer.
pub(super) struct Interceptors {
    /// The only cost of a record without interceptors.
    has_any: AtomicBool,
    all: RwLock<Vec<Arc<dyn ProducerInterceptor>>>,
    /// The number of batches to report.
    pending: watch::Sender<usize>,
}

impl Interceptors {
    pub(super) fn new() -> Self {
        Self {
            has_any: AtomicBool::new(false),
            all: RwLock::default(),
            pending: watch::Sender::new(0),
        }
    }

    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.has_any.load(Relaxed)
    }

    /// A copy, because interceptors may add others meanwhile.
    fn all(&self) -> Vec<Arc<dyn ProducerInterceptor>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn on_send<'a>(&self, record: ProducerRecord<'a>) -> OutgoingRecord<'a> {
        self.all()
            .iter()
            .fold(OutgoingRecord::new(record), |record, interceptor| {
                let before = record.clone();
                let changed = catch_unwind(AssertUnwindSafe(|| interceptor.on_send(record)));
                changed.unwrap_or_else(|_| {
                    tracing::error!(
                        event = "interceptor_panicked",
                        topic = %before.topic,
                        "interceptor panicked in on_send; the record is sent unchanged"
                    );
                    before
                })
            })
    }

    pub(super) fn notify(&self, topic: &str, outcome: Result<&RecordMetadata, &SendError>) {
        for interceptor in &self.all() {
            let notified = catch_unwind(AssertUnwindSafe(|| interceptor.on_acknowledgement(topic, outcome)));
            if notified.is_err() {
                tracing::error!(
                    event = "interceptor_panicked",
                    topic,
                    "interceptor panicked in on_acknowledgement"
                );
            }
        }
    }

    /// Reports the outcome of a record when it is known. One task reports all records of a batch.
    pub(super) fn follow(self: &Arc<Self>, io: &Io, delivery: &Delivery) {
        let (batch, index, timestamp) = delivery.parts();
        let batch = Arc::clone(batch);
        match batch.watch(index, timestamp) {
            WatchOutcome::WithOthers => {}
            WatchOutcome::First => {
                let notification = AckNotification::new(self);
                io.spawn(async move {
                    // The outcome is reported below, for all records.
                    let _ = Delivery::new(Arc::clone(&batch), 0, -1).await;
                    let records = batch.take_watched();
                    notification.notify_all(&batch, records).await;
                });
            }
            // The batch is complete already.
            WatchOutcome::TooLate => {
                let notification = AckNotification::new(self);
                io.spawn(async move { notification.notify_all(&batch, vec![(index, timestamp)]).await });
            }
        }
    }

    /// Waits until all outcomes were reported.
    pub(super) async fn all_notified(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.pending.subscribe().wait_for(|pending| *pending == 0).await;
    }
}

impl fmt::Debug for Interceptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interceptors")
            .field("count", &self.all().len())
            .finish()
    }
}

/// A batch to report; it counts as pending while this lives.
struct AckNotification(Arc<Interceptors>);

impl AckNotification {
    fn new(interceptors: &Arc<Interceptors>) -> Self {
        interceptors.pending.send_modify(|pending| *pending += 1);
        Self(Arc::clone(interceptors))
    }

    async fn notify_all(self, batch: &Arc<BatchDelivery>, records: Vec<(u32, i64)>) {
        for (index, timestamp) in records {
            let outcome = Delivery::new(Arc::clone(batch), index, timestamp).await;
            self.0.notify(&batch.topic_partition.topic, outcome.as_ref());
        }
    }
}

impl Drop for AckNotification {
    fn drop(&mut self) {
        self.0.pending.send_modify(|pending| *pending -= 1);
    }
}

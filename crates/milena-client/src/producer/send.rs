//! Sending: from a record to its batch.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{
            AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use milena_wire::records::{HEADER_SIZE, NewRecord};

use super::{
    Delivery, Producer, ProducerRecord, RecordMetadata,
    buffer::{AppendResult, MemoryExhausted, Partition},
    error::SendError,
    memory::Reservation,
    partition::{Choice, Load, PartitionInput, Partitions},
    shared::ProducerShared,
    topics::Topic,
};
use crate::{io, metadata::Refresh, metrics::ProducerCall};

/// The maximum encoding overhead of a record: lengths, offset, timestamp.
const RECORD_OVERHEAD: usize = 36;
/// The maximum encoding overhead of a header.
const HEADER_OVERHEAD: usize = 10;

/// The reason why [`Producer::try_enqueue`] did not accept a record.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// `buffer.memory` is exhausted, or the topic's metadata is missing.
    #[error("the record would have to wait: buffer.memory is exhausted, or the metadata of its topic is missing")]
    WouldBlock,
    #[error(transparent)]
    Refused(#[from] SendError),
}

/// The resource that a record must wait for.
enum Wait {
    Metadata,
    Memory(usize),
}

/// The reason why a record was not appended to a batch. Boxed, so that the result of the common case is small.
enum PlaceError {
    Wait(Wait),
    Refused(Box<SendError>),
}

impl From<SendError> for PlaceError {
    #[cold]
    fn from(error: SendError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl Producer {
    /// Sends a record and waits for its acknowledgement. It is sent at once if no batch of its partition is in flight,
    /// otherwise together with other records within `linger.ms`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel a record that is in a batch; a record that waits for memory is not sent.
    pub async fn send(&self, record: ProducerRecord<'_>) -> Result<RecordMetadata, SendError> {
        self.place(record, true).await?.await
    }

    /// Enqueues a record, to be sent within `linger.ms`. Waits up to `max.block.ms` if `buffer.memory` is exhausted or
    /// the topic's metadata is missing.
    ///
    /// Records of one partition are written in the order of the calls.
    ///
    /// # Cancel safety
    ///
    /// A record that waits for memory when the future is dropped is not sent.
    pub async fn enqueue(&self, record: ProducerRecord<'_>) -> Result<Delivery, SendError> {
        self.place(record, false).await
    }

    /// As [`enqueue`](Self::enqueue), without waiting.
    pub fn try_enqueue(&self, record: ProducerRecord<'_>) -> Result<Delivery, TrySendError> {
        let shared = self.shared();
        if !shared.interceptors.has_any() {
            return shared.place_now(&record);
        }
        let record = shared.interceptors.on_send(record);
        let placed = shared.place_now(&record.borrowed(&record.borrowed_headers()));
        match &placed {
            Ok(delivery) => shared.interceptors.follow(&shared.io, delivery),
            Err(TrySendError::Refused(error)) => shared.interceptors.notify(&record.topic, Err(error)),
            Err(TrySendError::WouldBlock) => {}
        }
        placed
    }

    async fn place(&self, record: ProducerRecord<'_>, is_urgent: bool) -> Result<Delivery, SendError> {
        let shared = self.shared();
        if shared.interceptors.has_any() {
            // Boxed, to keep the common future small.
            return Box::pin(shared.place_intercepted(record, is_urgent)).await;
        }
        shared.place(&record, is_urgent).await
    }
}

impl ProducerShared {
    async fn place(self: &Arc<Self>, record: &ProducerRecord<'_>, is_urgent: bool) -> Result<Delivery, SendError> {
        self.yield_if_owed().await;
        match self.try_place(record, is_urgent, &mut None) {
            Ok(delivery) => Ok(delivery),
            // Boxed, to keep the common future small.
            Err(PlaceError::Wait(wait)) => Box::pin(self.place_later(record, is_urgent, wait)).await,
            Err(PlaceError::Refused(error)) => Err(*error),
        }
    }

    async fn place_intercepted(
        self: &Arc<Self>,
        record: ProducerRecord<'_>,
        is_urgent: bool,
    ) -> Result<Delivery, SendError> {
        let record = self.interceptors.on_send(record);
        let headers = record.borrowed_headers();
        let placed = self.place(&record.borrowed(&headers), is_urgent).await;
        match &placed {
            Ok(delivery) => self.interceptors.follow(&self.io, delivery),
            Err(error) => self.interceptors.notify(&record.topic, Err(error)),
        }
        placed
    }

    fn place_now(self: &Arc<Self>, record: &ProducerRecord<'_>) -> Result<Delivery, TrySendError> {
        match self.try_place(record, false, &mut None) {
            Ok(delivery) => Ok(delivery),
            Err(PlaceError::Wait(Wait::Metadata)) => {
                self.use_topic(record.topic);
                Err(TrySendError::WouldBlock)
            }
            Err(PlaceError::Wait(Wait::Memory(_))) => {
                self.press();
                Err(TrySendError::WouldBlock)
            }
            Err(PlaceError::Refused(error)) => Err(TrySendError::Refused(*error)),
        }
    }

    #[inline]
    fn check(&self, record: &ProducerRecord<'_>) -> Result<(), PlaceError> {
        if self.is_closed.load(SeqCst) {
            return Err(SendError::Closed.into());
        }
        if self.config.transactional_id.is_some() {
            self.core().sender.check_send().map_err(SendError::from)?;
        }
        let size = size_max(record);
        if size > self.config.max_request_size {
            return Err(SendError::TooLarge {
                topic: record.topic.to_owned(),
                size,
                limit: self.config.max_request_size,
            }
            .into());
        }
        let total = self.limits.memory.total();
        if size > total {
            return Err(SendError::LargerThanMemory {
                topic: record.topic.to_owned(),
                size,
                limit: total,
            }
            .into());
        }
        Ok(())
    }

    /// Appends a record to its batch, unless it must wait.
    #[inline]
    fn try_place(
        self: &Arc<Self>,
        record: &ProducerRecord<'_>,
        is_urgent: bool,
        reservation: &mut Option<Reservation>,
    ) -> Result<Delivery, PlaceError> {
        self.check(record)?;
        let placed = self.try_append(record, is_urgent, reservation);
        self.drive_if_nudged();
        placed
    }

    #[inline]
    fn try_append(
        &self,
        record: &ProducerRecord<'_>,
        is_urgent: bool,
        reservation: &mut Option<Reservation>,
    ) -> Result<Delivery, PlaceError> {
        let topics = self.topics.read();
        let Some(topic) = topics.get(record.topic) else {
            return Err(PlaceError::Wait(Wait::Metadata));
        };
        let timestamp = record.timestamp.unwrap_or_else(|| match is_urgent {
            true => io::wall_ms(),
            false => io::coarse_wall_ms(),
        });
        let new = NewRecord {
            timestamp,
            key: record.key,
            value: record.value,
            headers: record.headers,
        };
        let choice = match record.partition {
            Some(partition) => Choice::Partition(partition),
            None => self.choose(topic, record, timestamp),
        };
        let appended = match choice {
            Choice::Partition(index) => {
                let Some(partition) = topic.partition(index) else {
                    return Err(SendError::NoSuchPartition {
                        topic: record.topic.to_owned(),
                        partition: index,
                        count: topic.partition_count(),
                    }
                    .into());
                };
                self.append(topic, partition, &new, is_urgent, reservation)
            }
            Choice::Sticky => self.append_sticky(topic, &new, is_urgent, reservation),
        };
        appended.map_err(|MemoryExhausted(bytes)| PlaceError::Wait(Wait::Memory(bytes)))
    }

    #[inline]
    fn choose(&self, topic: &Topic, record: &ProducerRecord<'_>, timestamp_ms: i64) -> Choice {
        if let (Some(keys), Some(key)) = (&topic.keys, record.key) {
            keys.record(record.topic, key);
        }
        let input = PartitionInput {
            topic: record.topic,
            key: record.key,
            value: record.value,
            headers: record.headers,
            timestamp_ms,
        };
        let partitions = Partitions {
            count: topic.partition_count(),
            available: &topic.available,
            loads: &[],
        };
        self.partitioner.partition(&input, &partitions)
    }

    fn append_sticky(
        &self,
        topic: &Topic,
        record: &NewRecord<'_>,
        is_urgent: bool,
        reservation: &mut Option<Reservation>,
    ) -> Result<Delivery, MemoryExhausted> {
        let mut sticky = topic.sticky.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match sticky.chosen() {
            Some(index) => index,
            None => {
                let loads = self.loads(topic);
                sticky.current(&Partitions {
                    count: topic.partition_count(),
                    available: &topic.available,
                    loads: &loads,
                })
            }
        };
        let Some(partition) = topic.partition(index) else {
            sticky.leave();
            return Err(MemoryExhausted(0));
        };
        let appended = partition.append(record, &self.limits, is_urgent, reservation)?;
        let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD / 4;
        sticky.on_appended(bytes, appended.limit, appended.has_closed);
        drop(sticky);
        Ok(self.note(topic, partition, appended, is_urgent))
    }

    /// The queue lengths of partitions with a leader, for adaptive partitioning.
    fn loads(&self, topic: &Topic) -> Vec<Load> {
        if !self.config.partitioner_adaptive_partitioning_enable {
            return vec![];
        }
        let available = topic.available.iter().filter_map(|index| topic.partition(*index));
        available
            .map(|partition| Load {
                partition: partition.topic_partition.partition,
                queued: partition.queued.load(Relaxed),
            })
            .collect()
    }

    #[inline]
    fn append(
        &self,
        topic: &Topic,
        partition: &Arc<Partition>,
        record: &NewRecord<'_>,
        is_urgent: bool,
        reservation: &mut Option<Reservation>,
    ) -> Result<Delivery, MemoryExhausted> {
        let appended = partition.append(record, &self.limits, is_urgent, reservation)?;
        Ok(self.note(topic, partition, appended, is_urgent))
    }

    /// Notifies the driver if it has something to do.
    #[inline]
    fn note(&self, topic: &Topic, partition: &Partition, appended: AppendResult, is_urgent: bool) -> Delivery {
        let AppendResult {
            delivery,
            opened_ms,
            has_closed,
            is_unlisted,
            limit: _,
        } = appended;
        if is_unlisted {
            self.list(partition.slot);
        }
        let is_due = has_closed || is_urgent;
        if is_due {
            self.nudge();
        }
        if let Some(opened_ms) = opened_ms {
            topic.used_ms.store(opened_ms, Relaxed);
            if !is_due {
                self.wake_at(opened_ms.saturating_add(self.config.linger_ms));
            }
        }
        delivery
    }

    /// Closes open batches early, to free memory.
    fn press(self: &Arc<Self>) {
        self.is_pressed.store(true, Relaxed);
        self.nudge();
        self.drive_if_nudged();
    }

    async fn place_later(
        self: &Arc<Self>,
        record: &ProducerRecord<'_>,
        is_urgent: bool,
        mut wait: Wait,
    ) -> Result<Delivery, SendError> {
        let waited = Duration::from_millis(u64::try_from(self.config.max_block_ms).unwrap_or(0));
        let deadline_ms = io::now_ms().saturating_add(self.config.max_block_ms);
        let mut deadline = std::pin::pin!(self.io.sleep_until(deadline_ms));
        let refusals = self.connections.authentication().last();
        loop {
            let mut reservation = None;
            match wait {
                Wait::Metadata => {
                    let began = Instant::now();
                    let known = self.wait_for_topic(record.topic);
                    tokio::select! {
                        biased;
                        known = known => known?,
                        error = self.connections.authentication().refused_after(refusals) => {
                            return Err(SendError::Authentication(error));
                        }
                        () = &mut deadline => return Err(self.unknown_topic(record.topic, waited)),
                    }
                    self.core()
                        .metrics
                        .record_call_time(ProducerCall::MetadataWait, nanos(began));
                }
                Wait::Memory(bytes) => {
                    self.press();
                    let (began, _waiting) = (Instant::now(), WaitingSend::new(&self.waiting_sends));
                    tokio::select! {
                        biased;
                        taken = self.limits.memory.take(bytes) => reservation = Some(taken.ok_or(SendError::Closed)?),
                        () = &mut deadline => {
                            self.core().metrics.record_buffer_exhausted(io::now_ms());
                            return Err(SendError::BufferExhausted { waited });
                        }
                    }
                    self.core().metrics.record_buffer_wait(io::now_ms(), nanos(began));
                }
            }
            match self.try_place(record, is_urgent, &mut reservation) {
                Ok(delivery) => return Ok(delivery),
                Err(PlaceError::Wait(again)) => wait = again,
                Err(PlaceError::Refused(error)) => return Err(*error),
            }
        }
    }

    /// Waits until the metadata of the topic is known.
    async fn wait_for_topic(&self, topic: &str) -> Result<(), SendError> {
        self.use_topic(topic);
        loop {
            let cluster = self.metadata.cache();
            if let Some(code) = cluster.topic_error(topic).filter(|code| !code.is_retriable()) {
                return Err(SendError::Topic {
                    topic: topic.to_owned(),
                    code,
                });
            }
            if cluster.topic(topic).is_some() {
                let mut core = self.core();
                self.update_topic(&mut core, io::now_ms(), &topic.into());
                return Ok(());
            }
            if cluster.topic_error(topic).is_some() {
                self.metadata.request_update(Refresh::Stale);
            }
            if !self.metadata.updated_past(cluster.version).await {
                return Err(SendError::Closed);
            }
        }
    }

    fn unknown_topic(&self, topic: &str, waited: Duration) -> SendError {
        let code = self.metadata.cache().topic_error(topic);
        let metadata_error = self.metadata.last_error().map(|error| error.to_string());
        SendError::UnknownTopic {
            topic: topic.to_owned(),
            waited,
            why: code.map(|code| code.to_string()).or(metadata_error),
        }
    }
}

/// Counts as a waiting send while it lives.
struct WaitingSend<'a>(&'a AtomicUsize);

impl<'a> WaitingSend<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for WaitingSend<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

pub(super) fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The maximum size of a batch that contains only this record.
fn size_max(record: &ProducerRecord<'_>) -> usize {
    let headers = record
        .headers
        .iter()
        .map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len) + HEADER_OVERHEAD);
    HEADER_SIZE
        + RECORD_OVERHEAD
        + record.key.map_or(0, <[u8]>::len)
        + record.value.map_or(0, <[u8]>::len)
        + headers.sum::<usize>()
}

//! The accumulator of one partition: an open batch, and closed batches that were not sent yet.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
};

use milena_machines::produce::Slot;
use milena_wire::records::{BatchBuilder, BatchOptions, ClosedBatch, NewRecord};

use super::{
    batch_delivery::{BatchDelivery, BatchOutcome},
    compressors::Compressors,
    delivery::Delivery,
    error::SendError,
    memory::{Memory, Reservation, next_size},
};
use crate::{consumer::TopicPartition, io};

/// A partition with its accumulator.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) topic_partition: Arc<TopicPartition>,
    pub(super) slot: Slot,
    /// Closed batches that were not sent yet, for adaptive partitioning.
    pub(super) queued: AtomicU32,
    /// The largest batch that the broker accepts, lowered when it refuses one.
    batch_max: AtomicUsize,
    buffer: Mutex<Buffer>,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    open: Option<OpenBatch>,
    closed: VecDeque<ReadyBatch>,
    /// Whether the driver has the partition in its list.
    pub(super) is_listed: bool,
}

#[derive(Debug)]
struct OpenBatch {
    builder: BatchBuilder,
    delivery: Arc<BatchDelivery>,
    reservation: Reservation,
    /// The current size limit. The reservation covers it.
    limit: usize,
    created_ms: i64,
    /// Whether a task waits for its acknowledgement.
    is_urgent: bool,
    largest_record: usize,
}

/// A closed batch.
#[derive(Debug)]
pub(super) struct ReadyBatch {
    pub(super) batch: ClosedBatch,
    pub(super) delivery: Arc<BatchDelivery>,
    pub(super) reservation: Reservation,
    pub(super) created_ms: i64,
    pub(super) uncompressed: usize,
    pub(super) largest_record: usize,
}

/// Limits and resources that all partitions of a producer share.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) memory: Arc<Memory>,
    /// `batch.size`, at least 1.
    pub(super) batch_size: usize,
    /// The size up to which batches grow while others are in flight.
    pub(super) batch_max: usize,
    pub(super) compressors: Compressors,
}

/// A batch grows to at most this fraction of the unacknowledged bytes, but always to `batch.size`. Several batches are
/// then in flight at any time, so that neither side waits for the other; slower acknowledgements lead to fewer and
/// larger batches.
const BACKLOG_SHARE: usize = 4;

impl Limits {
    /// The size at which a batch is full, given the unacknowledged bytes.
    fn full_at(&self, batch_max: usize) -> usize {
        let share = self.memory.unacknowledged() / BACKLOG_SHARE;
        share.min(batch_max).max(self.batch_size)
    }
}

/// The result of appending a record.
#[derive(Debug)]
pub(super) struct AppendResult {
    pub(super) delivery: Delivery,
    /// The creation time of the batch, if this record opened it.
    pub(super) opened_ms: Option<i64>,
    /// Whether an earlier batch was closed because it is full.
    pub(super) has_closed: bool,
    /// The size limit of the record's batch.
    pub(super) limit: usize,
    /// Whether the driver must add the partition to its list.
    pub(super) is_unlisted: bool,
}

/// The bytes that a new batch needs.
#[derive(Debug)]
pub(super) struct MemoryExhausted(pub(super) usize);

/// When an open batch should be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// At once if no batch of its partition is in flight, otherwise at `at_ms`.
    Urgent {
        at_ms: i64,
    },
    At {
        at_ms: i64,
    },
}

impl Partition {
    pub(super) fn new(topic_partition: Arc<TopicPartition>, slot: Slot) -> Self {
        Self {
            topic_partition,
            slot,
            queued: AtomicU32::new(0),
            batch_max: AtomicUsize::new(usize::MAX),
            buffer: Mutex::default(),
        }
    }

    pub(super) fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record to the open batch, or opens a batch with `reservation`.
    #[inline]
    pub(super) fn append(
        &self,
        record: &NewRecord<'_>,
        limits: &Limits,
        is_urgent: bool,
        reservation: &mut Option<Reservation>,
    ) -> Result<AppendResult, MemoryExhausted> {
        let mut guard = self.buffer();
        let buffer = &mut *guard;
        let mut has_closed = false;
        if let Some(open) = &mut buffer.open {
            let appended = match open.builder.append_within(open.limit, record) {
                Ok(size) => Some(size),
                Err(_) => self.grow(open, record, limits),
            };
            if let Some(size) = appended {
                open.is_urgent |= is_urgent;
                open.largest_record = open.largest_record.max(size);
                return Ok(AppendResult {
                    delivery: open.last_delivery(record.timestamp),
                    opened_ms: None,
                    has_closed: false,
                    limit: open.limit,
                    is_unlisted: false,
                });
            }
            self.close_open(buffer, limits);
            has_closed = true;
        }
        let mut open = self.open(record, limits, reservation)?;
        open.is_urgent = is_urgent;
        let opened_ms = Some(open.created_ms);
        let delivery = open.last_delivery(record.timestamp);
        let limit = open.limit;
        buffer.open = Some(open);
        Ok(AppendResult {
            delivery,
            opened_ms,
            has_closed,
            limit,
            is_unlisted: !std::mem::replace(&mut buffer.is_listed, true),
        })
    }

    fn open(
        &self,
        record: &NewRecord<'_>,
        limits: &Limits,
        reservation: &mut Option<Reservation>,
    ) -> Result<OpenBatch, MemoryExhausted> {
        // Reserving the full size at once avoids copies. When memory is short, batches grow in steps.
        let has_plenty = limits.memory.free() > limits.memory.total() / 2;
        let mut limit = if has_plenty {
            self.full_at(limits)
        } else {
            limits.batch_size
        };
        let mut builder = BatchBuilder::with_buffer(BatchOptions::default(), limits.memory.buffer(limit));
        let (empty, size) = (builder.size(), builder.size_with(record));
        let needed = size.max(limits.batch_size);
        let Some(mut reservation) = reservation.take().or_else(|| limits.memory.try_take(needed)) else {
            limits.memory.recycle(builder.replace_buffer(vec![]));
            return Err(MemoryExhausted(needed));
        };
        if !reservation.grow_to(limit) {
            limit = limits.batch_size;
        }
        // Its size was checked against `max.request.size`, so it fits.
        if builder.append(record).is_err() {
            return Err(MemoryExhausted(needed));
        }
        Ok(OpenBatch {
            builder,
            delivery: Arc::new(BatchDelivery::new(Arc::clone(&self.topic_partition))),
            reservation,
            limit,
            // The clock is read per batch, not per record.
            created_ms: io::now_ms(),
            is_urgent: false,
            largest_record: size - empty,
        })
    }

    /// Raises the limit of a full batch and appends the record, if other batches are in flight and memory is free.
    #[cold]
    fn grow(&self, open: &mut OpenBatch, record: &NewRecord<'_>, limits: &Limits) -> Option<usize> {
        let needed = open.builder.size_with(record);
        let full_at = self.full_at(limits);
        if needed > full_at {
            return None;
        }
        let limit = next_size(open.limit, full_at).max(needed);
        if !open.reservation.grow_to(limit) {
            return None;
        }
        let old = open.builder.replace_buffer(limits.memory.buffer(limit));
        limits.memory.recycle(old);
        open.limit = limit;
        open.builder.append_within(limit, record).ok()
    }

    fn full_at(&self, limits: &Limits) -> usize {
        limits.full_at(self.batch_max.load(Relaxed).min(limits.batch_max))
    }

    /// Lowers the batch size after the broker refused a batch.
    pub(super) fn refuse_size(&self, size: usize) {
        self.batch_max.fetch_min(size / 2, Relaxed);
    }

    /// When the open batch should be sent.
    pub(super) fn due(&self, buffer: &Buffer, limits: &Limits, linger_ms: i64) -> Due {
        let Some(open) = &buffer.open else { return Due::Nothing };
        let at_ms = open.created_ms.saturating_add(linger_ms);
        match open.is_urgent {
            true => Due::Urgent { at_ms },
            // Other batches were acknowledged meanwhile, so that it is large enough now.
            false if open.builder.size() > self.full_at(limits) => Due::At { at_ms: open.created_ms },
            false => Due::At { at_ms },
        }
    }

    /// Closes the open batch and queues it.
    pub(super) fn close_open(&self, buffer: &mut Buffer, limits: &Limits) {
        let Some(open) = buffer.open.take() else { return };
        let OpenBatch {
            builder,
            delivery,
            mut reservation,
            limit,
            created_ms,
            largest_record,
            is_urgent: _,
        } = open;
        let uncompressed = builder.size();
        let closed = match limits.compressors.take() {
            None => Ok(builder.close()),
            Some(mut compressor) => {
                let closed = builder.close_compressed(&mut compressor);
                limits.compressors.put_back(compressor);
                closed.map(|(closed, buffer)| {
                    limits.memory.recycle(buffer);
                    closed
                })
            }
        };
        match closed {
            Ok(batch) => {
                reservation.close(batch.size());
                // The buffer of a grown batch is larger than the batch.
                let is_grown = limit > limits.batch_size && !limits.compressors.is_enabled();
                reservation.shrink(if is_grown { limit } else { batch.size() });
                self.queued.fetch_add(1, Relaxed);
                buffer.closed.push_back(ReadyBatch {
                    batch,
                    delivery,
                    reservation,
                    created_ms,
                    uncompressed,
                    largest_record,
                });
            }
            Err(error) => delivery.decide(BatchOutcome::Failed(SendError::Compression {
                partition: TopicPartition::new(&*self.topic_partition.topic, self.topic_partition.partition),
                why: error.to_string(),
            })),
        }
    }
}

impl OpenBatch {
    fn last_delivery(&self, timestamp: i64) -> Delivery {
        let index = u32::try_from(self.builder.record_count() - 1).unwrap_or(0);
        Delivery::new(Arc::clone(&self.delivery), index, timestamp)
    }
}

impl Buffer {
    pub(super) fn pop_closed(&mut self) -> Option<ReadyBatch> {
        self.closed.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.closed.is_empty()
    }

    /// The creation time of the open batch.
    pub(super) fn opened_ms(&self) -> Option<i64> {
        self.open.as_ref().map(|open| open.created_ms)
    }

    /// The deliveries of all batches.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = &Arc<BatchDelivery>> {
        let open = self.open.as_ref().map(|open| &open.delivery);
        self.closed.iter().map(|ready| &ready.delivery).chain(open)
    }

    /// Removes all batches, which will not be sent. Returns their deliveries.
    pub(super) fn drop_all(&mut self) -> Vec<Arc<BatchDelivery>> {
        let deliveries = self.deliveries().cloned().collect();
        self.open = None;
        self.closed.clear();
        deliveries
    }
}

#[cfg(test)]
mod tests;

//! The records of one partition that have not left: an open batch that takes more, and closed ones before it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use milena_machines::produce::Slot;
use milena_wire::records::{BatchBuilder, BatchOptions, ClosedBatch, NewRecord};

use super::{
    compressors::Compressors,
    delivery::Delivery,
    error::SendError,
    fate::{BatchFate, Outcome},
    memory::{Memory, Room},
    record::SharedPlace,
};
use crate::{consumer::TopicPartition, io};

/// A partition that records are sent to.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) place: SharedPlace,
    pub(super) slot: Slot,
    /// Batches that are closed and not yet sent, for partitioners that look at that.
    pub(super) queued: AtomicU32,
    buffer: Mutex<Buffer>,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    open: Option<Open>,
    closed: VecDeque<Ready>,
    /// The driver knows that there is something.
    pub(super) is_listed: bool,
}

#[derive(Debug)]
struct Open {
    builder: BatchBuilder,
    fate: Arc<BatchFate>,
    room: Room,
    created_ms: i64,
    /// Somebody waits for it.
    is_urgent: bool,
    largest_record: usize,
}

/// A batch that can be sent.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) batch: ClosedBatch,
    pub(super) fate: Arc<BatchFate>,
    pub(super) room: Room,
    pub(super) created_ms: i64,
    pub(super) uncompressed: usize,
    pub(super) largest_record: usize,
}

/// What all partitions of a producer share.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) memory: Arc<Memory>,
    pub(super) batch_size: usize,
    pub(super) compressors: Compressors,
}

/// A record has found its place.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) delivery: Delivery,
    /// It is the first of its batch, which was opened then.
    pub(super) opened_ms: Option<i64>,
    /// A batch before it is full.
    pub(super) has_closed: bool,
    /// The driver does not know of this partition yet.
    pub(super) is_unlisted: bool,
}

/// A new batch needs so many bytes.
#[derive(Debug)]
pub(super) struct NoRoom(pub(super) usize);

/// Whether an open batch should leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// At once if nothing of its partition is under way, and otherwise then.
    Urgent {
        at_ms: i64,
    },
    At {
        at_ms: i64,
    },
}

impl Partition {
    pub(super) fn new(place: SharedPlace, slot: Slot) -> Self {
        Self {
            place,
            slot,
            queued: AtomicU32::new(0),
            buffer: Mutex::default(),
        }
    }

    pub(super) fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record to the open batch, or opens one for it in `room`.
    #[inline]
    pub(super) fn append(
        &self,
        record: &NewRecord<'_>,
        limits: &Limits,
        is_urgent: bool,
        room: &mut Option<Room>,
    ) -> Result<Appended, NoRoom> {
        let mut guard = self.buffer();
        let buffer = &mut *guard;
        let mut has_closed = false;
        if let Some(open) = &mut buffer.open {
            if let Ok(size) = open.builder.append_within(limits.batch_size, record) {
                open.is_urgent |= is_urgent;
                open.largest_record = open.largest_record.max(size);
                return Ok(Appended {
                    delivery: open.last_delivery(record.timestamp),
                    opened_ms: None,
                    has_closed: false,
                    is_unlisted: false,
                });
            }
            self.close_open(buffer, limits);
            has_closed = true;
        }
        let mut open = self.open(record, limits, room)?;
        open.is_urgent = is_urgent;
        let opened_ms = Some(open.created_ms);
        let delivery = open.last_delivery(record.timestamp);
        buffer.open = Some(open);
        Ok(Appended {
            delivery,
            opened_ms,
            has_closed,
            is_unlisted: !std::mem::replace(&mut buffer.is_listed, true),
        })
    }

    fn open(&self, record: &NewRecord<'_>, limits: &Limits, room: &mut Option<Room>) -> Result<Open, NoRoom> {
        let mut builder = BatchBuilder::with_buffer(BatchOptions::default(), limits.memory.buffer());
        let (empty, size) = (builder.size(), builder.size_with(record));
        let needed = size.max(limits.batch_size);
        let Some(room) = room.take().or_else(|| limits.memory.try_take(needed)) else {
            return Err(NoRoom(needed));
        };
        // It is smaller than a request may be, so it fits.
        if builder.append(record).is_err() {
            return Err(NoRoom(needed));
        }
        Ok(Open {
            builder,
            fate: Arc::new(BatchFate::new(Arc::clone(&self.place))),
            room,
            // Looking at the clock is not for every record.
            created_ms: io::now_ms(),
            is_urgent: false,
            largest_record: size - empty,
        })
    }

    /// Closes the open batch, so that it leaves next.
    pub(super) fn close_open(&self, buffer: &mut Buffer, limits: &Limits) {
        let Some(open) = buffer.open.take() else { return };
        let Open {
            builder,
            fate,
            mut room,
            created_ms,
            largest_record,
            ..
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
                room.shrink(batch.size());
                self.queued.fetch_add(1, Relaxed);
                buffer.closed.push_back(Ready {
                    batch,
                    fate,
                    room,
                    created_ms,
                    uncompressed,
                    largest_record,
                });
            }
            Err(error) => fate.decide(Outcome::Failed(SendError::Compression {
                partition: TopicPartition::new(&*self.place.topic, self.place.partition),
                why: error.to_string(),
            })),
        }
    }
}

impl Open {
    fn last_delivery(&self, timestamp: i64) -> Delivery {
        let index = u32::try_from(self.builder.record_count() - 1).unwrap_or(0);
        Delivery::new(Arc::clone(&self.fate), index, timestamp)
    }
}

impl Buffer {
    pub(super) fn pop_closed(&mut self) -> Option<Ready> {
        self.closed.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.closed.is_empty()
    }

    pub(super) fn due(&self, linger_ms: i64) -> Due {
        match &self.open {
            None => Due::Nothing,
            Some(open) => {
                let at_ms = open.created_ms.saturating_add(linger_ms);
                match open.is_urgent {
                    true => Due::Urgent { at_ms },
                    false => Due::At { at_ms },
                }
            }
        }
    }

    /// When the open batch was opened.
    pub(super) fn opened_ms(&self) -> Option<i64> {
        self.open.as_ref().map(|open| open.created_ms)
    }

    /// The fates of all batches here.
    pub(super) fn fates(&self) -> impl Iterator<Item = &Arc<BatchFate>> {
        let open = self.open.as_ref().map(|open| &open.fate);
        self.closed.iter().map(|ready| &ready.fate).chain(open)
    }

    /// Takes out all batches, which will not be sent.
    pub(super) fn drop_all(&mut self) -> Vec<Arc<BatchFate>> {
        let fates = self.fates().cloned().collect();
        self.open = None;
        self.closed.clear();
        fates
    }
}

//! Completed fetches: the records of one partition from one response, until they are polled.

use std::sync::Arc;

use milena_machines::{
    TopicPartition,
    fetch::{FetchError, Position, PositionEpoch},
};
use milena_wire::records::{Batch, BatchError, Batches, RecordDecoder, RecordSet};

use super::{
    aborted::AbortedTransactions,
    records::{ConsumerRecords, DecodedBatch},
};

/// The records of one partition from one response. Batches are decoded when the application polls.
#[derive(Debug)]
pub(crate) struct CompletedFetch {
    pub(crate) partition: TopicPartition,
    pub(crate) epoch: PositionEpoch,
    /// Its share of the byte budget.
    pub(crate) bytes: usize,
    /// The position of the next record to deliver.
    position: Position,
    batches: Batches,
    /// `None` with `isolation.level=read_uncommitted`.
    aborted: Option<AbortedTransactions>,
    current: Option<CurrentBatch>,
    /// Delivered and not yet counted in the metrics.
    uncounted: DeliveredCount,
    /// The end, reported after all records were delivered.
    end: FetchEnd,
    /// The offset after the current batch, for the error if the batch is unreadable.
    current_end: Option<i64>,
}

/// The partition of a fetch, and its position when the fetch was sent.
#[derive(Debug, Clone)]
pub(crate) struct FetchOrigin {
    pub(crate) partition: TopicPartition,
    pub(crate) epoch: PositionEpoch,
    pub(crate) position: Position,
}

/// Delivered records, and the bytes of their batches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeliveredCount {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

/// The end of a completed fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchEnd {
    /// More can be fetched.
    Open,
    /// The next offset is out of range.
    OutOfRange,
    Error(FetchError),
    /// The bytes that follow are not a batch.
    Unreadable,
}

/// The batch that is being delivered.
#[derive(Debug)]
struct CurrentBatch {
    batch: Arc<DecodedBatch>,
    next: usize,
    /// The position after the batch.
    after: Position,
}

/// The decoder of batches.
pub(crate) struct BatchReader {
    pub(crate) decoder: RecordDecoder,
    pub(crate) checks_crc: bool,
}

impl CompletedFetch {
    pub(crate) fn new(origin: FetchOrigin, batches: Batches, aborted: Option<AbortedTransactions>) -> Self {
        Self {
            partition: origin.partition,
            epoch: origin.epoch,
            bytes: batches.leftover(),
            position: origin.position,
            batches,
            aborted,
            current: None,
            uncounted: DeliveredCount::default(),
            end: FetchEnd::Open,
            current_end: None,
        }
    }

    /// A fetch without records, for an end to report in order.
    pub(crate) fn ending(origin: FetchOrigin, end: FetchEnd) -> Self {
        Self {
            end,
            ..Self::new(origin, Batches::new(bytes::Bytes::new()), None)
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn set_end(&mut self, end: FetchEnd) {
        self.end = end;
    }

    pub(crate) fn end(&self) -> &FetchEnd {
        &self.end
    }

    /// Takes the count of delivered records, once per batch.
    pub(crate) fn take_count(&mut self) -> Option<DeliveredCount> {
        let is_due = self.current.is_none() && self.uncounted.records > 0;
        is_due.then(|| std::mem::take(&mut self.uncounted))
    }

    /// Whether its end must be reported to the application.
    pub(crate) fn ends_with_error(&self) -> bool {
        matches!(self.end, FetchEnd::Error(_) | FetchEnd::Unreadable)
    }

    /// The offset after an unreadable batch, if its header has it.
    pub(crate) fn after_unreadable(&self) -> Option<i64> {
        self.current_end
    }

    /// Delivers up to `max` records. Returns whether there may be more.
    ///
    /// The position also advances over control records and aborted transactions. After an error it is before the
    /// unreadable batch.
    pub(crate) fn take(
        &mut self,
        max: usize,
        reader: &mut BatchReader,
        into: &mut ConsumerRecords,
    ) -> Result<bool, BatchError> {
        let mut left = max;
        while left > 0 {
            if self.current.is_none() && !self.next_batch(reader)? {
                return Ok(false);
            }
            left -= self.take_decoded(left, into);
        }
        Ok(true)
    }

    /// Delivers up to `max` records of the current batch. Returns their number.
    pub(crate) fn take_decoded(&mut self, max: usize, into: &mut ConsumerRecords) -> usize {
        let Some(current) = &mut self.current else {
            return 0;
        };
        let (first, len) = (current.next, current.batch.records.len());
        let end = len.min(first + max);
        if first < end {
            into.push(&current.batch, first, end);
            self.uncounted.records += end - first;
        }
        if end == len {
            self.position = current.after;
            self.current = None;
        } else {
            current.next = end;
            self.position = Position {
                offset: current.batch.records.known(end).offset(),
                epoch: current.batch.leader_epoch,
            };
        }
        end - first
    }

    /// The number of undelivered records in the current batch.
    pub(crate) fn decoded(&self) -> usize {
        let current = self.current.as_ref();
        current.map_or(0, |current| current.batch.records.len() - current.next)
    }

    /// Reads the next batch. Returns whether there was one. A batch without records for the application leaves no
    /// current batch.
    fn next_batch(&mut self, reader: &mut BatchReader) -> Result<bool, BatchError> {
        self.current_end = None;
        let Some(batch) = self.batches.next().transpose()? else {
            return Ok(false);
        };
        let after = after(&batch);
        self.current_end = Some(after.offset).filter(|offset| *offset > self.position.offset);
        if after.offset <= self.position.offset {
            // A response may start before the requested offset, because the broker uses an index. A damaged header
            // would look the same.
            if reader.checks_crc {
                batch.verify()?;
            }
            return Ok(true);
        }
        if let (Batch::V2(batch), Some(aborted)) = (&batch, &mut self.aborted)
            && aborted.covers(batch.header())
        {
            self.position = after;
            return Ok(true);
        }
        if reader.checks_crc {
            batch.verify()?;
        }
        let mut records = RecordSet::default();
        batch.decode_into(&mut reader.decoder, &mut records)?;
        if let Batch::V2(batch) = &batch
            && batch.header().attributes.is_control()
        {
            if let Some(aborted) = &mut self.aborted {
                aborted.handle_control(batch.header(), &records);
            }
            self.position = after;
            return Ok(true);
        }
        self.uncounted.bytes += records.size();
        let first_offset = self.position.offset;
        let next = records
            .iter()
            .position(|record| record.offset() >= first_offset)
            .unwrap_or(records.len());
        let batch = Arc::new(DecodedBatch {
            partition: self.partition.clone(),
            leader_epoch: after.epoch,
            records,
        });
        self.current = Some(CurrentBatch { batch, next, after });
        Ok(true)
    }
}

/// Scans the batch headers. Returns the position after the last whole batch and the number of records; `None` without a
/// whole batch.
pub(crate) fn scan_headers(batches: Batches) -> Result<Option<(Position, usize)>, BatchError> {
    let mut last = None;
    let mut records = 0;
    for batch in batches {
        let batch = batch?;
        records += match &batch {
            Batch::V2(batch) => usize::try_from(batch.header().record_count).unwrap_or(0),
            Batch::Legacy(_) => 1,
        };
        last = Some((after(&batch), records));
    }
    Ok(last)
}

/// The position after a batch, also if compaction removed its last records.
fn after(batch: &Batch) -> Position {
    let epoch = match batch {
        Batch::V2(batch) => Some(batch.header().partition_leader_epoch).filter(|epoch| *epoch >= 0),
        Batch::Legacy(_) => None,
    };
    Position {
        offset: batch.last_offset().saturating_add(1),
        epoch,
    }
}

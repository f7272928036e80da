//! What one fetch brought of one partition, on its way to the application.

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

/// Nothing behind the headers of its batches is looked at before the application asks for records.
#[derive(Debug)]
pub(crate) struct CompletedFetch {
    pub(crate) partition: TopicPartition,
    pub(crate) epoch: PositionEpoch,
    /// What it counts for in the budget.
    pub(crate) bytes: usize,
    /// The next record to hand out.
    position: Position,
    batches: Batches,
    /// `None` if transactions do not matter.
    aborted: Option<AbortedTransactions>,
    current: Option<CurrentBatch>,
    /// Delivered and not yet counted in the metrics.
    uncounted: DeliveredCount,
    /// What comes when all records are handed out.
    end: FetchEnd,
    /// The end of the batch that is looked into, which stays if it cannot be read.
    current_end: Option<i64>,
}

/// The partition that a fetch was for, and the position that it started at.
#[derive(Debug, Clone)]
pub(crate) struct FetchOrigin {
    pub(crate) partition: TopicPartition,
    pub(crate) epoch: PositionEpoch,
    pub(crate) position: Position,
}

/// Records that were handed out, and the bytes of their batches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeliveredCount {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
}

/// How the buffered part of a partition ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchEnd {
    /// More can be fetched.
    Open,
    /// The offset after it does not exist.
    OutOfRange,
    Error(FetchError),
    /// What follows is no batch.
    Unreadable,
}

/// The batch that is being handed out.
#[derive(Debug)]
struct CurrentBatch {
    batch: Arc<DecodedBatch>,
    next: usize,
    /// After the last record of the batch.
    after: Position,
}

/// How records are read.
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

    /// No records, but something to be told in its turn.
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

    /// What was handed out since this was last asked, once a batch is over: records and bytes.
    pub(crate) fn take_count(&mut self) -> Option<DeliveredCount> {
        let is_due = self.current.is_none() && self.uncounted.records > 0;
        is_due.then(|| std::mem::take(&mut self.uncounted))
    }

    /// Whether the application must hear of how it ends.
    pub(crate) fn ends_with_error(&self) -> bool {
        matches!(self.end, FetchEnd::Error(_) | FetchEnd::Unreadable)
    }

    /// Where to go on after a batch that could not be read, if its header tells.
    pub(crate) fn after_unreadable(&self) -> Option<i64> {
        self.current_end
    }

    /// Hands out up to `max` records. Says whether there may be more.
    ///
    /// The position moves on over what the application never sees. After an error it stands before the batch that cannot be
    /// read.
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

    /// Hands out up to `max` records of the batch in hand; says how many.
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

    /// How many records of the batch in hand are left.
    pub(crate) fn decoded(&self) -> usize {
        let current = self.current.as_ref();
        current.map_or(0, |current| current.batch.records.len() - current.next)
    }

    /// Looks into the next batch; says whether there was one. Afterwards there is none in hand if it holds nothing for the
    /// application.
    fn next_batch(&mut self, reader: &mut BatchReader) -> Result<bool, BatchError> {
        self.current_end = None;
        let Some(batch) = self.batches.next().transpose()? else {
            return Ok(false);
        };
        let after = after(&batch);
        self.current_end = Some(after.offset).filter(|offset| *offset > self.position.offset);
        if after.offset <= self.position.offset {
            // A fetch answers from an index: what it begins with may have been read. But a damaged header says so too.
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

/// Where reading goes on after these batches and how many records they have, by their headers alone; `None` if there is
/// not one whole batch.
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

/// The place after a batch, also if compaction has left it without its last records.
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

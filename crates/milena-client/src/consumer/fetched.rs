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
pub(crate) struct Fetched {
    pub(crate) partition: TopicPartition,
    pub(crate) turn: PositionEpoch,
    /// What it counts for in the budget.
    pub(crate) bytes: usize,
    /// The next record to hand out.
    position: Position,
    batches: Batches,
    /// `None` if transactions do not matter.
    aborted: Option<AbortedTransactions>,
    current: Option<Current>,
    /// Records and their bytes that were handed out and not yet counted.
    uncounted: (usize, usize),
    /// What comes when all records are handed out.
    end: End,
    /// The end of the batch that is looked into, which stays if it cannot be read.
    looked_into: Option<i64>,
}

/// How the buffered part of a partition ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
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
struct Current {
    batch: Arc<DecodedBatch>,
    next: usize,
    /// After the last record of the batch.
    after: Position,
}

/// How records are read.
pub(crate) struct Reading {
    pub(crate) decoder: RecordDecoder,
    pub(crate) checks_crc: bool,
}

impl Fetched {
    pub(crate) fn new(
        (partition, turn): (TopicPartition, PositionEpoch),
        position: Position,
        batches: Batches,
        aborted: Option<AbortedTransactions>,
    ) -> Self {
        Self {
            partition,
            turn,
            bytes: batches.leftover(),
            position,
            batches,
            aborted,
            current: None,
            uncounted: (0, 0),
            end: End::Open,
            looked_into: None,
        }
    }

    /// No records, but something to be told in its turn.
    pub(crate) fn ending((partition, turn): (TopicPartition, PositionEpoch), position: Position, end: End) -> Self {
        Self {
            end,
            ..Self::new((partition, turn), position, Batches::new(bytes::Bytes::new()), None)
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn set_end(&mut self, end: End) {
        self.end = end;
    }

    pub(crate) fn end(&self) -> &End {
        &self.end
    }

    /// What was handed out since this was last asked, once a batch is over: records and bytes.
    pub(crate) fn take_count(&mut self) -> Option<(usize, usize)> {
        let is_due = self.current.is_none() && self.uncounted.0 > 0;
        is_due.then(|| std::mem::take(&mut self.uncounted))
    }

    /// Whether the application must hear of how it ends.
    pub(crate) fn is_to_be_told(&self) -> bool {
        matches!(self.end, End::Error(_) | End::Unreadable)
    }

    /// Where to go on after a batch that could not be read, if its header tells.
    pub(crate) fn after_unreadable(&self) -> Option<i64> {
        self.looked_into
    }

    /// Hands out up to `max` records. Says whether there may be more.
    ///
    /// The position moves on over what the application never sees. After an error it stands before the batch that cannot be
    /// read.
    pub(crate) fn take(
        &mut self,
        max: usize,
        reading: &mut Reading,
        into: &mut ConsumerRecords,
    ) -> Result<bool, BatchError> {
        let mut left = max;
        while left > 0 {
            if self.current.is_none() && !self.next_batch(reading)? {
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
            self.uncounted.0 += end - first;
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
    fn next_batch(&mut self, reading: &mut Reading) -> Result<bool, BatchError> {
        self.looked_into = None;
        let Some(batch) = self.batches.next().transpose()? else {
            return Ok(false);
        };
        let after = after(&batch);
        self.looked_into = Some(after.offset).filter(|offset| *offset > self.position.offset);
        if after.offset <= self.position.offset {
            // A fetch answers from an index: what it begins with may have been read. But a damaged header says so too.
            if reading.checks_crc {
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
        if reading.checks_crc {
            batch.verify()?;
        }
        let mut records = RecordSet::default();
        batch.decode_into(&mut reading.decoder, &mut records)?;
        if let Batch::V2(batch) = &batch
            && batch.header().attributes.is_control()
        {
            if let Some(aborted) = &mut self.aborted {
                aborted.handle_control(batch.header(), &records);
            }
            self.position = after;
            return Ok(true);
        }
        self.uncounted.1 += records.size();
        let wanted_from = self.position.offset;
        let next = records
            .iter()
            .position(|record| record.offset() >= wanted_from)
            .unwrap_or(records.len());
        let batch = Arc::new(DecodedBatch {
            partition: self.partition.clone(),
            leader_epoch: after.epoch,
            records,
        });
        self.current = Some(Current { batch, next, after });
        Ok(true)
    }
}

/// Where reading goes on after these batches and how many records they have, by their headers alone; `None` if there is
/// not one whole batch.
pub(crate) fn look_over(batches: Batches) -> Result<Option<(Position, usize)>, BatchError> {
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

//! The decision of compaction about each batch: keep, remove or rewrite.

use bytes::Bytes;
use milena_wire::records::{Batch, BatchHeader, ControlRecord};

use super::{
    error::CompactionError,
    key_map::KeyMap,
    rebuild::{Rebuilder, empty},
    transactions::{Marker, Transactions},
};
use crate::producers::{AbortedTransaction, Producers};

/// Decides about all batches of a log, in their order.
pub(super) struct Filter<'a> {
    pub(super) map: &'a KeyMap,
    /// The map covers all offsets below; batches from here on are kept unchanged.
    pub(super) map_end: i64,
    pub(super) producers: &'a Producers,
    pub(super) transactions: Transactions,
    pub(super) now_ms: i64,
    pub(super) delete_retention_ms: i64,
    pub(super) rebuilder: Rebuilder,
    pub(super) records_kept: u64,
    pub(super) records_removed: u64,
}

/// The result of compaction for one batch.
pub(super) enum Decision {
    /// Unchanged, byte for byte.
    Keep,
    Remove,
    /// Written in its stead.
    Replace(Bytes),
}

impl Filter<'_> {
    /// Decides about the next batch. Of a `needed` batch at least the header is kept. An abort marker that is
    /// kept comes with its entry for the transaction index.
    pub(super) fn decide(
        &mut self,
        batch: &Batch,
        needed: bool,
    ) -> Result<(Decision, Option<AbortedTransaction>), CompactionError> {
        let Batch::V2(v2) = batch else {
            return Ok((self.decide_records(batch, None, needed)?, None));
        };
        let header = v2.header();
        let needed = needed || self.producers.last_seen_in(header);
        if header.attributes.is_control() {
            return self.decide_control(batch, header, needed);
        }
        if self.transactions.handle_data(header) && header.base_offset < self.map_end {
            self.records_removed += u64::from(header.record_count.cast_unsigned());
            return Ok((rest_of(batch, needed), None));
        }
        Ok((self.decide_records(batch, Some(header), needed)?, None))
    }

    fn decide_control(
        &mut self,
        batch: &Batch,
        header: &BatchHeader,
        needed: bool,
    ) -> Result<(Decision, Option<AbortedTransaction>), CompactionError> {
        self.rebuilder.decode(batch)?;
        let record = self
            .rebuilder
            .records()
            .next()
            .map(|record| ControlRecord::parse(&record));
        // A control record that does not parse is of a newer Kafka, and is kept.
        let record = record.map(|parsed| parsed.unwrap_or(ControlRecord::Other { record_type: -1 }));
        let is_empty = record.is_none();
        let decision = match self.transactions.handle_marker(header, record) {
            Marker::Needed(aborted) => return Ok((Decision::Keep, aborted)),
            Marker::Superfluous if header.base_offset >= self.map_end => Decision::Keep,
            Marker::Superfluous if is_empty => rest_of(batch, needed),
            Marker::Superfluous => match header.delete_horizon_ms() {
                Some(horizon) if horizon <= self.now_ms => rest_of(batch, needed),
                Some(_) => Decision::Keep,
                None => {
                    let horizon = self.now_ms.saturating_add(self.delete_retention_ms);
                    self.rebuilder.mark(|_| true);
                    Decision::Replace(self.rebuilder.rebuild(batch, Some(horizon))?)
                }
            },
        };
        Ok((decision, None))
    }

    fn decide_records(
        &mut self,
        batch: &Batch,
        header: Option<&BatchHeader>,
        needed: bool,
    ) -> Result<Decision, CompactionError> {
        if header.map_or_else(|| batch.last_offset(), |header| header.base_offset) >= self.map_end {
            return Ok(Decision::Keep);
        }
        let horizon = header.and_then(BatchHeader::delete_horizon_ms);
        let keeps_tombstones = horizon.is_none_or(|horizon| self.now_ms < horizon);
        let (map, mut tombstones) = (self.map, false);
        self.rebuilder.decode(batch)?;
        let kept = self.rebuilder.mark(|record| {
            // Compacted topics refuse records without a key; this one is older than the setting.
            let Some(key) = record.key() else { return false };
            let is_last = map.last_offset(key).is_none_or(|last| record.offset() >= last);
            let is_tombstone = record.value().is_none();
            let stays = is_last && (keeps_tombstones || !is_tombstone);
            tombstones |= stays && is_tombstone;
            stays
        });
        let removed = self.rebuilder.records().len() - kept;
        self.records_kept += kept as u64;
        self.records_removed += removed as u64;
        if kept == 0 {
            return Ok(rest_of(batch, needed));
        }
        let begins_horizon = tombstones && horizon.is_none();
        if removed == 0 && !begins_horizon {
            return Ok(Decision::Keep);
        }
        let new_horizon = begins_horizon.then(|| self.now_ms.saturating_add(self.delete_retention_ms));
        self.rebuilder
            .rebuild(batch, horizon.or(new_horizon))
            .map(Decision::Replace)
    }
}

/// Without records, a batch is removed, or reduced to its header if that is needed.
fn rest_of(batch: &Batch, needed: bool) -> Decision {
    match needed {
        true => Decision::Replace(empty(batch)),
        false => Decision::Remove,
    }
}

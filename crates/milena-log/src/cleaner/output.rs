//! The segment that compaction writes, until it replaces others.

use std::{path::Path, sync::Arc};

use milena_wire::records::Batch;

use super::swap::CLEANED;
use crate::{
    aborted,
    config::LogConfig,
    disk::{self, Disk},
    error::{Doing, StorageError},
    load,
    producers::AbortedTransaction,
    segment::Segment,
};

/// Bytes per write.
const WINDOW: usize = 1 << 20;

pub(super) struct Output<'a> {
    disk: &'a Arc<dyn Disk>,
    config: &'a LogConfig,
    segment: Segment,
    /// Batches at the end of the segment that are not in its file yet.
    pending: Vec<u8>,
    aborted: Vec<AbortedTransaction>,
}

impl<'a> Output<'a> {
    /// `buffer` may have served before.
    pub(super) fn create(
        disk: &'a Arc<dyn Disk>,
        dir: &Path,
        base_offset: i64,
        config: &'a LogConfig,
        mut buffer: Vec<u8>,
    ) -> Result<Self, StorageError> {
        buffer.clear();
        Ok(Self {
            disk,
            config,
            segment: Segment::unfinished(Arc::clone(disk), dir, base_offset, CLEANED)?,
            pending: buffer,
            aborted: vec![],
        })
    }

    pub(super) fn push(&mut self, batch: &Batch) -> Result<(), StorageError> {
        let size = batch.size();
        if self.segment.size() as usize + size > i32::MAX as usize {
            // A delete horizon makes timestamps longer, so tiny tombstones can grow.
            let path = self.segment.path_of("log");
            return Err(StorageError::damaged(&path, "it would be too large once compacted"));
        }
        self.pending.extend_from_slice(batch.bytes());
        let timestamp = load::max_timestamp(batch);
        self.segment
            .note(self.config, batch.last_offset(), timestamp, size as u32);
        if self.pending.len() >= WINDOW {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds an aborted transaction, whose marker is in this segment, to the transaction index.
    pub(super) fn push_aborted(&mut self, transaction: AbortedTransaction) {
        self.aborted.push(transaction);
    }

    /// Syncs the files, but not their names; returns the segment and the buffer.
    pub(super) fn finish(mut self) -> Result<(Segment, Vec<u8>), StorageError> {
        self.flush()?;
        self.segment.sync()?;
        // Written even if it is empty, because it must replace an old one.
        let path = disk::with_suffix(&self.segment.path_of("txnindex"), CLEANED);
        let content = aborted::encode_all(&self.aborted);
        let file = self.disk.create(&path).doing("create", &path)?;
        file.write_at(&content, &[], 0).doing("write", &path)?;
        file.sync().doing("sync", &path)?;
        self.segment.set_aborted(self.aborted);
        self.segment.write_indexes_as(CLEANED)?;
        Ok((self.segment, self.pending))
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        let position = self.segment.size() - self.pending.len() as u32;
        self.segment.write_noted(&self.pending, position)?;
        self.pending.clear();
        Ok(())
    }
}

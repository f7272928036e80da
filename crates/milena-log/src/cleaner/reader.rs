//! Reading all batches of a segment, in pieces that fit a cache and always into the same memory.

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use milena_wire::records::{Batch, Batches};

use crate::{error::StorageError, segment::Segment};

/// Bytes per read. Small, because the bytes are scanned at once and should still be in the cache.
const WINDOW: usize = 256 << 10;
/// A window holds at least this number of batches: a batch cut off at its end is read again with the next window.
const BATCHES_IN_WINDOW: usize = 8;

pub(super) struct Reader {
    /// The two last windows. A caller may still use the last batch while the next window is read, so that the
    /// memory is used alternately.
    last: Bytes,
    before: Bytes,
    /// Bytes per read; grows with the largest batch.
    window: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            last: Bytes::new(),
            before: Bytes::new(),
            window: WINDOW,
        }
    }

    /// Hands out the batches from position `start` on, each with the position after it, until `visit` breaks.
    pub(super) fn walk(
        &mut self,
        segment: &Segment,
        start: u32,
        mut visit: impl FnMut(&Batch, u32) -> Result<ControlFlow<()>, StorageError>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let damaged = |reason: String| StorageError::damaged(&segment.path_of("log"), reason);
        let end = segment.size();
        let mut position = start;
        while position < end {
            let left = (end - position) as usize;
            let len = self.window.min(left);
            let before = position;
            for batch in Batches::new(self.read(segment, position, len)?) {
                let batch = batch.map_err(|error| damaged(error.to_string()))?;
                position += batch.size() as u32;
                self.window = self.window.max(batch.size() * BATCHES_IN_WINDOW);
                if visit(&batch, position)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if position == before {
                if len == left {
                    return Err(damaged(format!("the batch at {position} is not whole")));
                }
                self.window = self.window.max(len * 2);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn read(&mut self, segment: &Segment, position: u32, len: usize) -> Result<Bytes, StorageError> {
        let before = std::mem::replace(&mut self.before, std::mem::take(&mut self.last));
        let mut buffer: BytesMut = before.try_into_mut().unwrap_or_default();
        if buffer.len() < len {
            // Only the new part is filled with zeros.
            buffer.resize(len, 0);
        }
        let read = segment.read_into(buffer.get_mut(..len).unwrap_or_default(), position)?;
        self.last = buffer.freeze();
        Ok(self.last.slice(..read))
    }
}

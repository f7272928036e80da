//! Reading all batches of a segment, in large pieces and always into the same memory.

use std::ops::ControlFlow;

use milena_wire::{
    pool::BufferPool,
    records::{Batch, Batches},
};

use crate::{error::StorageError, segment::Segment};

pub(super) struct Reader {
    pool: BufferPool,
    /// How much is read at once; it grows with the largest batch.
    window: usize,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            pool: BufferPool::new(64 << 20),
            window: 1 << 20,
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
            let mut buffer = self.pool.take(self.window.min(left));
            buffer.resize(self.window.min(left), 0);
            let read = segment.read_into(&mut buffer, position)?;
            buffer.truncate(read);
            let before = position;
            for batch in Batches::new(buffer.freeze()) {
                let batch = batch.map_err(|error| damaged(error.to_string()))?;
                position += batch.size() as u32;
                if visit(&batch, position)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if position == before {
                if self.window >= left {
                    return Err(damaged(format!("the batch at {position} is not whole")));
                }
                self.window *= 2;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

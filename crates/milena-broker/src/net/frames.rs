//! Requests cut from a stream of bytes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use milena_wire::frame::{FrameError, LENGTH_SIZE, frame_length};
use tokio::{
    io::AsyncReadExt,
    net::tcp::OwnedReadHalf,
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// What a connection that says nothing costs.
const BUFFER_SIZE: usize = 4 << 10;
/// How much is read at once while nothing is known of the next frame.
const READ_AHEAD: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFrameError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Memory for requests, shared by all connections: whoever has none left waits before reading on.
#[derive(Debug, Clone)]
pub(crate) struct RequestMemory {
    kilobytes: Arc<Semaphore>,
    kilobytes_max: u32,
}

impl RequestMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let kilobytes_max = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).max(1);
        // A semaphore cannot count further than this, which is more memory than there is.
        let permits = (kilobytes_max as usize).min(Semaphore::MAX_PERMITS);
        Self {
            kilobytes: Arc::new(Semaphore::new(permits)),
            kilobytes_max,
        }
    }

    /// Waits for room. A request larger than all there is gets all there is.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kilobytes = u32::try_from(bytes / 1024 + 1)
            .unwrap_or(u32::MAX)
            .min(self.kilobytes_max);
        // The semaphore is never closed.
        Arc::clone(&self.kilobytes).acquire_many_owned(kilobytes).await.ok()
    }
}

pub(super) struct FrameReader {
    stream: OwnedReadHalf,
    buffer: BytesMut,
    length_max: usize,
    memory: RequestMemory,
    /// Room for the frame that is being read.
    room: Option<OwnedSemaphorePermit>,
}

/// A frame, without its length. Its room is free again when this is dropped.
pub(super) struct ReadFrame {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl FrameReader {
    pub(super) fn new(stream: OwnedReadHalf, length_max: usize, memory: RequestMemory) -> Self {
        Self {
            stream,
            buffer: BytesMut::with_capacity(BUFFER_SIZE),
            length_max,
            memory,
            room: None,
        }
    }

    /// The next frame; `None` when the peer has closed. What was read stays when this is cancelled.
    pub(super) async fn next(&mut self) -> Result<Option<ReadFrame>, ReadFrameError> {
        loop {
            let missing = match self.buffer.first_chunk::<LENGTH_SIZE>() {
                None => READ_AHEAD.min(self.buffer.capacity().max(BUFFER_SIZE)),
                Some(prefix) => {
                    let length = LENGTH_SIZE + frame_length(*prefix, self.length_max)?;
                    if self.buffer.len() >= length {
                        let frame = self.buffer.split_to(length).freeze();
                        return Ok(Some(ReadFrame {
                            bytes: frame.slice(LENGTH_SIZE..),
                            _room: self.room.take(),
                        }));
                    }
                    if self.room.is_none() {
                        self.room = self.memory.take(length).await;
                    }
                    length - self.buffer.len()
                }
            };
            self.buffer.reserve(missing);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

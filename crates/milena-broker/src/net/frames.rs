//! Frames of requests, read from a socket.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use milena_wire::frame::{FrameError, LENGTH_SIZE, frame_length};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// The buffer of an idle connection.
const BUFFER_SIZE: usize = 4 << 10;
/// The most that is read at once while the length of the next frame is unknown.
const READ_AHEAD: usize = 64 << 10;

/// The smallest frame whose memory is counted until its response is ready.
const KEPT_FROM: usize = 16 << 10;

/// The longest pause within a frame. The part that has arrived holds memory that other connections wait for.
const STALL_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFrameError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the rest of a request did not arrive within {0:?}")]
    Stalled(Duration),
}

/// Memory for requests, shared by all connections. A connection that finds none waits before it reads on.
#[derive(Debug, Clone)]
pub(crate) struct RequestMemory {
    kilobytes: Arc<Semaphore>,
    kilobytes_max: u32,
}

impl RequestMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let kilobytes_max = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).max(1);
        // The limit of a semaphore is more memory than there is.
        let permits = (kilobytes_max as usize).min(Semaphore::MAX_PERMITS);
        Self {
            kilobytes: Arc::new(Semaphore::new(permits)),
            kilobytes_max,
        }
    }

    /// Waits for memory. A request larger than the whole budget gets the whole budget.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kilobytes = u32::try_from(bytes / 1024 + 1)
            .unwrap_or(u32::MAX)
            .min(self.kilobytes_max);
        // The semaphore is never closed.
        Arc::clone(&self.kilobytes).acquire_many_owned(kilobytes).await.ok()
    }
}

pub(super) struct FrameReader<S> {
    stream: S,
    buffer: BytesMut,
    length_max: usize,
    memory: RequestMemory,
    /// Memory for the frame that is being read.
    permit: Option<OwnedSemaphorePermit>,
    /// When bytes were last read, or memory was found for more.
    progress: Instant,
}

/// A frame, without its length. Dropping it frees its memory.
pub(super) struct ReadFrame {
    pub(super) bytes: Bytes,
    permit: FrameMemory,
}

/// The memory of a frame; dropping it frees it.
pub(super) struct FrameMemory(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl ReadFrame {
    /// The memory of a frame that its request may keep until its response, if it is large. Small requests that wait, such as
    /// fetches, are bounded by their number, and must not keep others from being read.
    pub(super) fn kept_memory(self) -> Option<FrameMemory> {
        (self.bytes.len() >= KEPT_FROM).then_some(self.permit)
    }
}

impl<S: AsyncRead + Unpin> FrameReader<S> {
    pub(super) fn new(stream: S, length_max: usize, memory: RequestMemory) -> Self {
        Self {
            stream,
            buffer: BytesMut::with_capacity(BUFFER_SIZE),
            length_max,
            memory,
            permit: None,
            progress: Instant::now(),
        }
    }

    /// Reads the next frame; `None` when the peer has closed. Cancel safe: bytes that were read stay in the buffer.
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
                            permit: FrameMemory(self.permit.take()),
                        }));
                    }
                    if self.permit.is_none() {
                        self.permit = self.memory.take(length).await;
                        // The time spent waiting for memory does not count as a stall of the client.
                        self.progress = Instant::now();
                    }
                    length - self.buffer.len()
                }
            };
            self.buffer.reserve(missing);
            let is_partial = !self.buffer.is_empty();
            let read = self.stream.read_buf(&mut self.buffer);
            let count = if is_partial {
                let read = tokio::time::timeout_at(self.progress + STALL_MAX, read).await;
                read.map_err(|_| ReadFrameError::Stalled(STALL_MAX))??
            } else {
                read.await?
            };
            if count == 0 {
                return Ok(None);
            }
            self.progress = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    const BUDGET: usize = 100 << 10;

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_stalls_is_given_up_and_frees_its_memory() {
        let memory = RequestMemory::new(BUDGET);
        let (mut client, server) = tokio::io::duplex(1024);
        let mut frames = FrameReader::new(server, 1 << 20, memory.clone());
        client.write_all(&50_000_u32.to_be_bytes()).await.unwrap();
        let start = Instant::now();
        let Err(error) = frames.next().await else {
            panic!("a frame was read that was never sent");
        };
        assert!(matches!(error, ReadFrameError::Stalled(_)), "{error}");
        assert_eq!(start.elapsed(), STALL_MAX);
        assert!(memory.kilobytes.available_permits() < BUDGET / 1024);
        drop(frames);
        assert_eq!(memory.kilobytes.available_permits(), BUDGET / 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_frame_is_read_as_long_as_something_comes() {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut frames = FrameReader::new(server, 1 << 20, RequestMemory::new(BUDGET));
        let slow = tokio::spawn(async move {
            client.write_all(&5_u32.to_be_bytes()).await.unwrap();
            for byte in *b"hello" {
                tokio::time::sleep(STALL_MAX * 9 / 10).await;
                client.write_all(&[byte]).await.unwrap();
            }
            client
        });
        assert_eq!(frames.next().await.unwrap().unwrap().bytes, "hello");
        slow.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_idle_or_waits_for_memory_is_not_given_up() {
        let memory = RequestMemory::new(BUDGET);
        let all = memory.take(BUDGET).await;
        let (mut client, server) = tokio::io::duplex(1024);
        let mut frames = FrameReader::new(server, 1 << 20, memory.clone());
        assert!(tokio::time::timeout(STALL_MAX * 3, frames.next()).await.is_err());
        client.write_all(&5_u32.to_be_bytes()).await.unwrap();
        assert!(tokio::time::timeout(STALL_MAX * 3, frames.next()).await.is_err());
        drop(all);
        client.write_all(b"hello").await.unwrap();
        assert_eq!(frames.next().await.unwrap().unwrap().bytes, "hello");
    }
}

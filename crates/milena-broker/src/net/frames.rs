//! Frames of requests, read from a socket.

use std::{future::Future, io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use milena_wire::frame::{FrameError, LENGTH_SIZE, frame_length};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// The buffer of an idle connection.
const BUFFER_SIZE: usize = 4 << 10;
/// The most that is read at once while the length of the next frame is unknown.
const READ_AHEAD: usize = 64 << 10;

/// The smallest frame whose memory is counted until its response is ready.
const KEPT_FROM: usize = 16 << 10;

/// The bytes that tell Kafka's protocol from others.
const HEAD_LEN: usize = 16;

/// The longest pause within a frame. The part that has arrived holds memory that other connections wait for.
const STALL_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFrameError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
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

/// The origin of the bytes of frames.
pub(super) trait FrameSource {
    /// Adds bytes to `buffer`, about `wanted` at most, and returns their number; 0 at the end. Must be cancel safe.
    fn read(&mut self, buffer: &mut BytesMut, wanted: usize) -> impl Future<Output = io::Result<usize>> + Send;
}

pub(super) struct FrameReader {
    buffer: BytesMut,
    length_max: usize,
    /// `None` for a client that is not logged in: it must not hold memory that others wait for.
    memory: Option<RequestMemory>,
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

impl FrameReader {
    /// Reads frames without memory of the pool. Their length must be small.
    pub(super) fn small(length_max: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(BUFFER_SIZE),
            length_max,
            memory: None,
            permit: None,
            progress: Instant::now(),
        }
    }

    /// Goes on with frames of another length, which take their memory from a pool.
    #[must_use]
    pub(super) fn with_memory(self, length_max: usize, memory: RequestMemory) -> Self {
        Self {
            length_max,
            memory: Some(memory),
            ..self
        }
    }

    /// The first bytes of the frame that is being read.
    pub(super) fn head(&self) -> &[u8] {
        self.buffer.get(..HEAD_LEN).unwrap_or(&self.buffer)
    }

    /// Reads the next frame; `None` when the peer has closed. Cancel safe: bytes that were read stay in the buffer.
    pub(super) async fn next(&mut self, stream: &mut impl FrameSource) -> Result<Option<ReadFrame>, ReadFrameError> {
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
                    if self.permit.is_none()
                        && let Some(memory) = &self.memory
                    {
                        self.permit = memory.take(length).await;
                        // The time spent waiting for memory does not count as a stall of the client.
                        self.progress = Instant::now();
                    }
                    length - self.buffer.len()
                }
            };
            let is_partial = !self.buffer.is_empty();
            let read = stream.read(&mut self.buffer, missing);
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    impl FrameSource for DuplexStream {
        async fn read(&mut self, buffer: &mut BytesMut, wanted: usize) -> io::Result<usize> {
            buffer.reserve(wanted);
            self.read_buf(buffer).await
        }
    }

    fn frames(memory: &RequestMemory) -> FrameReader {
        FrameReader::small(0).with_memory(1 << 20, memory.clone())
    }

    const BUDGET: usize = 100 << 10;

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_stalls_is_given_up_and_frees_its_memory() {
        let memory = RequestMemory::new(BUDGET);
        let (mut client, mut server) = tokio::io::duplex(1024);
        let mut frames = frames(&memory);
        client.write_all(&50_000_u32.to_be_bytes()).await.unwrap();
        let start = Instant::now();
        let Err(error) = frames.next(&mut server).await else {
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
        let (mut client, mut server) = tokio::io::duplex(1024);
        let mut frames = frames(&RequestMemory::new(BUDGET));
        let slow = tokio::spawn(async move {
            client.write_all(&5_u32.to_be_bytes()).await.unwrap();
            for byte in *b"hello" {
                tokio::time::sleep(STALL_MAX * 9 / 10).await;
                client.write_all(&[byte]).await.unwrap();
            }
            client
        });
        assert_eq!(frames.next(&mut server).await.unwrap().unwrap().bytes, "hello");
        slow.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_idle_or_waits_for_memory_is_not_given_up() {
        let memory = RequestMemory::new(BUDGET);
        let all = memory.take(BUDGET).await;
        let (mut client, mut server) = tokio::io::duplex(1024);
        let mut frames = frames(&memory);
        assert!(
            tokio::time::timeout(STALL_MAX * 3, frames.next(&mut server))
                .await
                .is_err()
        );
        client.write_all(&5_u32.to_be_bytes()).await.unwrap();
        assert!(
            tokio::time::timeout(STALL_MAX * 3, frames.next(&mut server))
                .await
                .is_err()
        );
        drop(all);
        client.write_all(b"hello").await.unwrap();
        assert_eq!(frames.next(&mut server).await.unwrap().unwrap().bytes, "hello");
    }
}

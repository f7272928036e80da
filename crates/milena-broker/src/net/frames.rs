//! Frames of requests, read from a socket.

use std::{future::Future, io, pin::pin, time::Duration};

use bytes::{Bytes, BytesMut};
use milena_wire::frame::{FrameError, LENGTH_SIZE, frame_length};
use tokio::time::Instant;

use super::memory::{FrameMemory, RequestMemory};

/// The buffer of an idle connection.
const BUFFER_SIZE: usize = 4 << 10;
/// The most that is read at once while the length of the next frame is unknown.
const READ_AHEAD: usize = 64 << 10;

/// The least that is read at once of a frame. More is read only when as much has arrived before.
const READ_MIN: usize = 16 << 10;
/// The memory that is reserved for a frame, as a multiple of the bytes that have arrived: less copying than by doubling.
const RESERVED_TIMES: usize = 4;

/// The smallest frame whose memory is counted until its response is ready.
const KEPT_FROM: usize = 16 << 10;

/// The bytes that tell Kafka's protocol from others.
const HEAD_LEN: usize = 16;

/// A frame that holds memory for which others wait must bring this much in this time.
const PACE_BYTES: usize = 64 << 10;
const PACE_TIME: Duration = Duration::from_secs(1);

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
    #[error("a request arrived too slowly while others waited for memory (queued.max.request.bytes)")]
    TooSlow,
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
    /// Memory of the frame that is being read.
    frame_memory: FrameMemory,
    pace: Pace,
}

/// The pace at which a frame arrives.
struct Pace {
    /// When bytes were last read, or memory was found for more.
    progress: Instant,
    /// The present interval, and the bytes that came in it.
    began: Instant,
    bytes: usize,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            progress: now,
            began: now,
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: usize) {
        self.progress = Instant::now();
        self.bytes += bytes;
    }

    /// The time spent waiting for memory does not count as a stall of the client.
    fn restart(&mut self) {
        *self = Self::new();
    }

    fn deadline(&self) -> Instant {
        (self.progress + STALL_MAX).min(self.began + PACE_TIME)
    }

    /// Judges the client when the deadline has passed.
    fn check(&mut self, memory: Option<&RequestMemory>) -> Result<(), ReadFrameError> {
        if self.progress.elapsed() >= STALL_MAX {
            return Err(ReadFrameError::Stalled(STALL_MAX));
        }
        if self.bytes < PACE_BYTES && memory.is_some_and(RequestMemory::is_short) {
            return Err(ReadFrameError::TooSlow);
        }
        (self.began, self.bytes) = (Instant::now(), 0);
        Ok(())
    }
}

/// A frame, without its length. Dropping it frees its memory.
pub(super) struct ReadFrame {
    pub(super) bytes: Bytes,
    memory: FrameMemory,
}

impl ReadFrame {
    /// The memory of a frame that its request may keep until its response, if it is large. Small requests that wait, such as
    /// fetches, are bounded by their number, and must not keep others from being read.
    pub(super) fn kept_memory(self) -> Option<FrameMemory> {
        (self.bytes.len() >= KEPT_FROM).then_some(self.memory)
    }
}

impl FrameReader {
    /// Reads frames without memory of the pool. Their length must be small.
    pub(super) fn small(length_max: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(BUFFER_SIZE),
            length_max,
            memory: None,
            frame_memory: FrameMemory::default(),
            pace: Pace::new(),
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
                        // The last bytes count too, because the request may keep them for long.
                        if let Some(memory) = &self.memory
                            && length >= KEPT_FROM
                        {
                            memory.grow(&mut self.frame_memory, length).await;
                        }
                        return Ok(Some(self.complete(length)));
                    }
                    if let Some(memory) = &self.memory
                        && memory.grow(&mut self.frame_memory, self.buffer.len()).await
                    {
                        self.pace.restart();
                    }
                    let missing = length - self.buffer.len();
                    self.buffer
                        .reserve(missing.min((self.buffer.len() * RESERVED_TIMES).max(READ_MIN)));
                    missing.min(self.buffer.len().max(READ_MIN))
                }
            };
            let count = match self.buffer.is_empty() {
                true => {
                    let count = stream.read(&mut self.buffer, missing).await?;
                    self.pace.restart();
                    count
                }
                false => self.read_in_time(stream, missing).await?,
            };
            if count == 0 {
                return Ok(None);
            }
            self.pace.add(count);
        }
    }

    /// Reads more of a frame, unless its client is too slow.
    async fn read_in_time(&mut self, stream: &mut impl FrameSource, wanted: usize) -> Result<usize, ReadFrameError> {
        let mut read = pin!(stream.read(&mut self.buffer, wanted));
        loop {
            match tokio::time::timeout_at(self.pace.deadline(), &mut read).await {
                Ok(count) => return Ok(count?),
                Err(_) => self.pace.check(self.memory.as_ref())?,
            }
        }
    }

    /// Takes the frame of this length, prefix included, which is all there.
    fn complete(&mut self, length: usize) -> ReadFrame {
        let frame = self.buffer.split_to(length).freeze();
        let memory = std::mem::take(&mut self.frame_memory);
        ReadFrame {
            bytes: frame.slice(LENGTH_SIZE..),
            memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    impl FrameSource for DuplexStream {
        async fn read(&mut self, buffer: &mut BytesMut, wanted: usize) -> io::Result<usize> {
            buffer.reserve(wanted);
            self.read_buf(&mut buffer.limit(wanted)).await
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
        client.write_all(&[0; 1000]).await.unwrap();
        let start = Instant::now();
        let Err(error) = frames.next(&mut server).await else {
            panic!("a frame was read that was never sent");
        };
        assert!(matches!(error, ReadFrameError::Stalled(_)), "{error}");
        assert_eq!(start.elapsed(), STALL_MAX);
        assert!(memory.available() < BUDGET);
        drop(frames);
        assert_eq!(memory.available(), BUDGET);
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
        let (mut all, mut extra) = (FrameMemory::default(), FrameMemory::default());
        memory.grow(&mut all, BUDGET).await;
        memory.grow(&mut extra, 1).await;
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
        drop((all, extra));
        client.write_all(b"hello").await.unwrap();
        assert_eq!(frames.next(&mut server).await.unwrap().unwrap().bytes, "hello");
    }

    /// Reads one frame of this length, of which all bytes are there.
    async fn read_whole(memory: &RequestMemory, length: usize) -> Duration {
        let (mut client, mut server) = tokio::io::duplex(2 << 20);
        let prefix = u32::try_from(length).unwrap().to_be_bytes();
        client.write_all(&prefix).await.unwrap();
        client.write_all(&vec![0; length]).await.unwrap();
        let start = Instant::now();
        let frame = frames(memory).next(&mut server).await.unwrap().unwrap();
        assert_eq!(frame.bytes.len(), length);
        start.elapsed()
    }

    /// Clients that announce a frame and send a part of it. Dropping them ends them.
    async fn partial(
        memory: &RequestMemory,
        count: usize,
        sent: usize,
    ) -> Vec<(DuplexStream, tokio::task::JoinHandle<()>)> {
        let mut clients = vec![];
        for _ in 0..count {
            let (mut client, mut server) = tokio::io::duplex(1 << 20);
            client.write_all(&1_000_000_u32.to_be_bytes()).await.unwrap();
            client.write_all(&vec![0; sent]).await.unwrap();
            let mut frames = frames(memory);
            let reading = tokio::spawn(async move {
                let _ = frames.next(&mut server).await;
            });
            clients.push((client, reading));
        }
        // They have read what there is, and wait for more bytes or for memory.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        clients
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_are_only_announced_take_no_memory_from_others() {
        let memory = RequestMemory::new(BUDGET);
        let _announced = partial(&memory, 100, 0).await;
        assert_eq!(read_whole(&memory, 50_000).await, Duration::ZERO);
        assert_eq!(read_whole(&memory, 1 << 20).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn half_frames_that_hold_all_memory_do_not_stop_the_others() {
        let memory = RequestMemory::new(BUDGET);
        let _halves = partial(&memory, 10, 30_000).await;
        assert!(memory.available() < BUDGET / 4, "{}", memory.available());
        assert!(read_whole(&memory, 1 << 20).await <= PACE_TIME * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_hold_memory_and_wait_for_more_do_not_wait_for_each_other() {
        let memory = RequestMemory::new(BUDGET);
        let mut reading = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let memory = memory.clone();
            reading.spawn(async move { read_whole(&memory, 80_000).await });
        }
        while let Some(time) = reading.join_next().await {
            assert_eq!(time.unwrap(), Duration::ZERO);
        }
        assert_eq!(memory.available(), BUDGET);
    }
}

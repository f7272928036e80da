//! Response frames, cut from a byte stream.
//!
//! A small frame arrives with one read and is copied out of it. A large one is read straight from the socket into a
//! buffer of its own.

use std::{
    pin::pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes};
use milena_wire::{
    frame::{LENGTH_SIZE, frame_length},
    pool::{BufferPool, PooledBuffer},
};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::error::ReceiveError;

/// Bytes to read at once before the length of the next frame is known. The part of a large frame in them is copied.
const READ_AHEAD: usize = 4 << 10;
/// Frames below this size get memory of their own: a pooled buffer could be much larger.
const POOLED_FROM: usize = 32 << 10;

#[derive(Debug)]
pub(super) struct FrameReader {
    length_max: usize,
    pool: BufferPool,
    /// For small frames; it keeps no buffers.
    unpooled: BufferPool,
    /// Bytes that were read ahead; those from `used` on are not consumed yet.
    ahead: Vec<u8>,
    used: usize,
    /// The frame that is being read.
    body: Option<Body>,
}

#[derive(Debug)]
struct Body {
    buffer: PooledBuffer,
    missing: usize,
}

impl FrameReader {
    pub(super) fn new(length_max: usize, pool: BufferPool) -> Self {
        Self {
            length_max,
            pool,
            unpooled: BufferPool::new(0),
            ahead: Vec::with_capacity(READ_AHEAD),
            used: 0,
            body: None,
        }
    }

    /// The next frame, without its length field. Partial reads are kept when this returns pending.
    pub(super) fn poll_frame<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<Result<Bytes, ReceiveError>> {
        loop {
            if let Some(body) = self.body.as_mut().filter(|body| body.missing > 0) {
                let mut room = (&mut *body.buffer).limit(body.missing);
                let count = ready!(pin!(stream.read_buf(&mut room)).poll(cx))?;
                if count == 0 {
                    return Poll::Ready(Err(ReceiveError::EofInside));
                }
                body.missing -= count;
                continue;
            }
            if let Some(body) = self.body.take() {
                return Poll::Ready(Ok(body.buffer.freeze()));
            }
            if let Some(whole) = self.begin()? {
                return Poll::Ready(Ok(whole));
            }
            if self.body.is_none() {
                ready!(self.poll_ahead(cx, stream))?;
            }
        }
    }

    /// Starts the next frame if its length is known. Returns it if it was read completely.
    fn begin(&mut self) -> Result<Option<Bytes>, ReceiveError> {
        let Some((prefix, rest)) = self
            .ahead
            .get(self.used..)
            .and_then(|ahead| ahead.split_first_chunk::<LENGTH_SIZE>())
        else {
            return Ok(None);
        };
        match prefix {
            [0x15, 3, ..] => return Err(ReceiveError::Tls),
            b"HTTP" => return Err(ReceiveError::Http),
            _ => {}
        }
        let length = frame_length(*prefix, self.length_max)?;
        if let Some(whole) = rest.get(..length) {
            let whole = Bytes::copy_from_slice(whole);
            self.used += LENGTH_SIZE + length;
            return Ok(Some(whole));
        }
        let mut buffer = self.buffer(length);
        buffer.extend_from_slice(rest);
        let missing = length - rest.len();
        self.used = self.ahead.len();
        self.body = Some(Body { buffer, missing });
        Ok(None)
    }

    fn buffer(&self, length: usize) -> PooledBuffer {
        if length < POOLED_FROM {
            return self.unpooled.take(length);
        }
        // A buffer can be reused only for frames that are not larger, so sizes are rounded up. A frame must not hold a
        // buffer much larger than itself.
        let step = (length.next_power_of_two() / 8).max(1);
        let capacity = length.next_multiple_of(step);
        self.pool.take_within(capacity, capacity.saturating_mul(2))
    }

    fn poll_ahead<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<Result<(), ReceiveError>> {
        self.ahead.drain(..self.used);
        self.used = 0;
        let room = READ_AHEAD.saturating_sub(self.ahead.len());
        let mut room = (&mut self.ahead).limit(room);
        let count = ready!(pin!(stream.read_buf(&mut room)).poll(cx))?;
        Poll::Ready(match count {
            0 if self.ahead.is_empty() => Err(ReceiveError::Eof),
            0 => Err(ReceiveError::EofInside),
            _ => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io, pin::Pin};

    use milena_machines::Random;
    use tokio::io::ReadBuf;

    use super::*;

    /// Returns its bytes in pieces of random sizes, and is pending in between.
    struct Pieces {
        bytes: Bytes,
        random: Random,
        size_max: u64,
        ready: bool,
    }

    impl AsyncRead for Pieces {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.ready = !self.ready;
            if !self.ready {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let size_max = self.size_max;
            let size = usize::try_from(self.random.below(size_max) + 1).unwrap();
            let size = size.min(self.bytes.len()).min(buffer.remaining());
            buffer.put_slice(&self.bytes.split_to(size));
            Poll::Ready(Ok(()))
        }
    }

    fn read_all(frames: &[Vec<u8>], seed: u64, size_max: u64, pool: &BufferPool) -> Vec<Bytes> {
        let bytes = frames
            .iter()
            .flat_map(|frame| [&(frame.len() as u32).to_be_bytes()[..], frame].concat());
        let mut pieces = Pieces {
            bytes: bytes.collect(),
            random: Random::new(seed),
            size_max,
            ready: false,
        };
        let mut reader = FrameReader::new(1 << 20, pool.clone());
        let mut read = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            loop {
                match poll_fn(|cx| reader.poll_frame(cx, &mut pieces)).await {
                    Ok(frame) => read.push(frame),
                    Err(error) => {
                        assert!(matches!(error, ReceiveError::Eof), "{error}");
                        return read;
                    }
                }
            }
        })
    }

    #[test]
    fn responses_are_the_same_however_they_come() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let frames: Vec<Vec<u8>> = (0..random.below(12))
                .map(|_| {
                    let size_max = [10, READ_AHEAD as u64 * 2, POOLED_FROM as u64 * 2][random.below(3) as usize];
                    (0..random.below(size_max)).map(|_| random.next_u64() as u8).collect()
                })
                .collect();
            let size_max = [7, 100, 5000, 1 << 20][random.below(4) as usize];
            let read = read_all(&frames, seed, size_max, &BufferPool::new(1 << 20));
            assert_eq!(read, frames, "seed {seed}");
        }
    }

    #[test]
    fn large_responses_take_buffers_of_the_pool_and_small_ones_do_not() {
        let pool = BufferPool::new(10 << 20);
        drop(read_all(&[vec![1; POOLED_FROM - 1]], 1, 1 << 20, &pool));
        assert_eq!(pool.idle_bytes(), 0);
        let large = read_all(&[vec![1; 1_000_000]], 1, 1 << 20, &pool);
        assert_eq!(pool.idle_bytes(), 0);
        drop(large);
        let idle = pool.idle_bytes();
        assert!((1_000_000..1_200_000).contains(&idle), "{idle}");
        // A much smaller frame does not take the large buffer.
        let small = read_all(&[vec![1; 100_000]], 1, 1 << 20, &pool);
        drop(small);
        assert!(pool.idle_bytes() < idle, "{}", pool.idle_bytes());
    }
}

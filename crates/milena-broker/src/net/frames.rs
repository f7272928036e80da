//! Requests cut from a stream of bytes.

use bytes::{Bytes, BytesMut};
use milena_wire::frame::{FrameError, LENGTH_SIZE, frame_length};
use tokio::{io::AsyncReadExt, net::tcp::OwnedReadHalf};

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

pub(super) struct FrameReader {
    stream: OwnedReadHalf,
    buffer: BytesMut,
    length_max: usize,
}

impl FrameReader {
    pub(super) fn new(stream: OwnedReadHalf, length_max: usize) -> Self {
        Self {
            stream,
            buffer: BytesMut::with_capacity(BUFFER_SIZE),
            length_max,
        }
    }

    /// The next frame, without its length; `None` when the peer has closed. What was read stays when this is cancelled.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ReadFrameError> {
        loop {
            let missing = match self.buffer.first_chunk::<LENGTH_SIZE>() {
                None => READ_AHEAD.min(self.buffer.capacity().max(BUFFER_SIZE)),
                Some(prefix) => {
                    let length = LENGTH_SIZE + frame_length(*prefix, self.length_max)?;
                    if self.buffer.len() >= length {
                        let frame = self.buffer.split_to(length).freeze();
                        return Ok(Some(frame.slice(LENGTH_SIZE..)));
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

//! Frames from a socket.

use bytes::{Buf, Bytes, BytesMut};
use milena_wire::frame;
use tokio::{io::AsyncReadExt, net::tcp::OwnedReadHalf};

const READ_BYTES: usize = 64 << 10;

/// Splits the bytes of a socket into frames.
pub(super) struct Frames {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

impl Frames {
    pub(super) fn new(socket: OwnedReadHalf) -> Self {
        let buffer = BytesMut::new();
        Self { socket, buffer }
    }

    /// The next frame, its length included; `None` at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(size) = self.size()
                && self.buffer.len() >= size
            {
                return Some(self.buffer.split_to(size).freeze());
            }
            self.buffer.reserve(READ_BYTES);
            match self.socket.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Size of the frame that has begun.
    fn size(&self) -> Option<usize> {
        let mut prefix = self.buffer.get(..frame::LENGTH_SIZE)?;
        // An invalid length makes a frame that never ends.
        Some(usize::try_from(prefix.get_i32()).unwrap_or(usize::MAX / 2) + frame::LENGTH_SIZE)
    }
}

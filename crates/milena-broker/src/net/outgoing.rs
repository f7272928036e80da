//! An answer on its way out: bytes from memory, and records straight from files.

use std::{io, sync::LazyLock, time::Duration};

use bytes::Bytes;
use milena_log::FileSlice;
use milena_wire::frame::Frame;
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{TcpStream, tcp::OwnedWriteHalf},
};

/// The frame of an answer. Where it holds a [`placeholder`], the records come from the next file slice.
#[derive(Debug)]
pub(crate) struct Outgoing {
    frame: Frame,
    files: Vec<FileSlice>,
    /// For so long the connection is silent afterwards.
    pub(super) pause: Duration,
}

/// A placeholder's length is all that encoding looks at. Its bytes are never read, so these pages are never touched: the
/// allocator maps a block of this size as zeros on demand, and it costs address space only.
static PLACEHOLDER: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; PLACEHOLDER_LEN_MAX]));

/// The longest file slice that one placeholder can stand for.
pub(crate) const PLACEHOLDER_LEN_MAX: usize = 64 << 20;

/// Bytes to encode in the place of a file slice of this length.
pub(crate) fn placeholder(len: usize) -> Bytes {
    PLACEHOLDER.slice(..len.min(PLACEHOLDER_LEN_MAX))
}

fn is_placeholder(segment: &Bytes) -> bool {
    PLACEHOLDER.as_ptr_range().contains(&segment.as_ptr())
}

impl Outgoing {
    pub(super) fn new(frame: Frame, files: Vec<FileSlice>, pause: Duration) -> Self {
        Self { frame, files, pause }
    }

    /// All that would be sent from memory.
    #[cfg(test)]
    pub(crate) fn into_bytes(self) -> Bytes {
        self.frame.into_bytes()
    }

    pub(super) async fn send(mut self, stream: &mut OwnedWriteHalf) -> io::Result<()> {
        if self.files.is_empty() {
            return stream.write_all_buf(&mut self.frame).await;
        }
        let mut files = self.files.into_iter();
        for segment in self.frame.segments() {
            if is_placeholder(segment) {
                let slice = files.next().ok_or(io::ErrorKind::UnexpectedEof)?;
                send_file(&slice, stream).await?;
            } else {
                stream.write_all(segment).await?;
            }
        }
        Ok(())
    }
}

/// Sends a slice of a file without bringing it into memory, where the disk is a real one.
async fn send_file(slice: &FileSlice, stream: &mut OwnedWriteHalf) -> io::Result<()> {
    let Some(file) = slice.file.as_file() else {
        return stream.write_all(&slice.read()?).await;
    };
    let socket: &TcpStream = stream.as_ref();
    let mut position = slice.position;
    let end = slice.position + slice.len as u64;
    while position < end {
        let left = usize::try_from(end - position).unwrap_or(usize::MAX).min(SENDFILE_MAX);
        let sent = socket
            .async_io(Interest::WRITABLE, || {
                rustix::fs::sendfile(socket, file, Some(&mut position), left).map_err(io::Error::from)
            })
            .await?;
        if sent == 0 {
            // The file has become shorter than the log says it is.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Larger pieces are measurably slower, and keep a worker from other connections for longer.
const SENDFILE_MAX: usize = 256 << 10;

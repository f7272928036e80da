//! An encoded response: bytes from memory, and records straight from files.

use std::{io, sync::LazyLock, time::Duration};

use bytes::Bytes;
use milena_log::FileSlice;
use milena_wire::frame::Frame;
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{TcpStream, tcp::OwnedWriteHalf},
};

/// The frame of a response. Where it holds a [`placeholder`], the records come from the next file slice.
#[derive(Debug)]
pub(crate) struct OutboundResponse {
    frame: Frame,
    files: Vec<FileSlice>,
    /// The connection reads and sends nothing for this time afterwards.
    pub(super) throttle_time: Duration,
}

/// The bytes of all placeholders. Encoding looks at the length only and never reads them, so their pages are never
/// touched: the allocator maps a block of this size as zeros on demand, and it costs address space only.
static PLACEHOLDER: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; PLACEHOLDER_LEN_MAX]));

/// The length of the longest file slice that one placeholder can stand for.
pub(crate) const PLACEHOLDER_LEN_MAX: usize = 64 << 20;

/// Returns bytes to encode in place of a file slice of this length.
pub(crate) fn placeholder(len: usize) -> Bytes {
    PLACEHOLDER.slice(..len.min(PLACEHOLDER_LEN_MAX))
}

fn is_placeholder(segment: &Bytes) -> bool {
    PLACEHOLDER.as_ptr_range().contains(&segment.as_ptr())
}

impl OutboundResponse {
    pub(super) fn new(frame: Frame, files: Vec<FileSlice>, throttle_time: Duration) -> Self {
        Self {
            frame,
            files,
            throttle_time,
        }
    }

    /// The bytes that would be sent from memory.
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

/// Sends a slice of a file without reading it into memory, where the disk is a real one.
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
            // The file is shorter than the log says it is.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// The most that one sendfile call sends: larger pieces are measurably slower, and block a worker for longer.
const SENDFILE_MAX: usize = 256 << 10;

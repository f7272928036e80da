//! An encoded response: bytes from memory, and records straight from files.

use std::{io, sync::LazyLock, time::Duration};

use bytes::{Buf, Bytes};
use milena_invariant::invariant;
use milena_log::FileSlice;
use milena_wire::{api::ApiKey, frame::Frame};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::TcpStream,
};

use super::tls::{BUFFER_SIZE, TlsBuffer, TlsBuffers, TlsStream};
use crate::quotas::Charge;

/// The frame of a response. Where it holds a [`placeholder`], the records come from the next file slice.
#[derive(Debug)]
pub(crate) struct OutboundResponse {
    pub(super) key: ApiKey,
    pub(super) frame: Frame,
    pub(super) files: Vec<FileSlice>,
    /// The connection reads and sends nothing for this time afterwards.
    pub(super) throttle_time: Duration,
    /// The error codes in the response, without 0.
    pub(super) errors: Vec<i16>,
    /// The client that pays for the time of sending; `None` if there are no quotas.
    pub(super) charge: Option<Charge>,
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
    /// Bytes of the frame, with those that are sent from files.
    pub(super) fn size(&self) -> usize {
        self.frame.remaining()
    }

    /// The bytes that would be sent from memory.
    #[cfg(test)]
    pub(crate) fn into_bytes(self) -> Bytes {
        self.frame.into_bytes()
    }

    /// Sends the frame on a plain socket, with records straight from files.
    pub(super) async fn send(mut self, stream: &mut TcpStream) -> io::Result<()> {
        if self.files.is_empty() {
            return stream.write_all_buf(&mut self.frame).await;
        }
        check_slices(&self.frame, &self.files)?;
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

    /// Sends the frame under TLS. Records are read from files into one buffer, in pieces that fill TLS records.
    pub(super) async fn send_encrypted(self, stream: &mut TlsStream, buffers: &TlsBuffers) -> io::Result<()> {
        check_slices(&self.frame, &self.files)?;
        let mut staged = Staged {
            buffer: buffers.take(),
            used: 0,
        };
        let mut files = self.files.iter();
        for segment in self.frame.segments() {
            let source = if is_placeholder(segment) {
                Piece::File(files.next().ok_or(io::ErrorKind::UnexpectedEof)?)
            } else {
                Piece::Memory(segment)
            };
            let mut position = 0;
            while position < segment.len() {
                position += staged.fill(&source, position)?;
                if staged.used == BUFFER_SIZE {
                    staged.send(stream).await?;
                }
            }
        }
        staged.send(stream).await
    }
}

/// A part of a frame.
enum Piece<'a> {
    Memory(&'a [u8]),
    File(&'a FileSlice),
}

/// Plain bytes that are to be encrypted together.
struct Staged<'a> {
    buffer: TlsBuffer<'a>,
    used: usize,
}

impl Staged<'_> {
    /// Adds bytes of a piece from `position` on, as many as there is room for, and returns their number.
    fn fill(&mut self, piece: &Piece<'_>, position: usize) -> io::Result<usize> {
        let room = self.buffer.get_mut(self.used..).unwrap_or_default();
        let count = match piece {
            Piece::Memory(bytes) => {
                let bytes = bytes.get(position..).unwrap_or_default();
                let count = bytes.len().min(room.len());
                if let (Some(to), Some(from)) = (room.get_mut(..count), bytes.get(..count)) {
                    to.copy_from_slice(from);
                }
                count
            }
            Piece::File(slice) => {
                let len = room.len().min(slice.len.saturating_sub(position));
                let into = room.get_mut(..len).unwrap_or_default();
                slice.file.read_at(into, slice.position + position as u64)?
            }
        };
        if count == 0 {
            // The file is shorter than the log says it is.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.used += count;
        Ok(count)
    }

    async fn send(&mut self, stream: &mut TlsStream) -> io::Result<()> {
        let bytes = self.buffer.get(..self.used).unwrap_or_default();
        stream.write_all(bytes).await?;
        self.used = 0;
        Ok(())
    }
}

/// Checks that each placeholder has a slice of its length: the length of the frame, which is sent first, counts on it.
fn check_slices(frame: &Frame, files: &[FileSlice]) -> io::Result<()> {
    let placeholders = frame.segments().filter(|segment| is_placeholder(segment));
    let lengths = placeholders.map(Bytes::len);
    if !invariant!(
        lengths.eq(files.iter().map(|slice| slice.len)),
        "every_placeholder_has_a_slice_of_its_length"
    ) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(())
}

/// Sends a slice of a file without reading it into memory, where the disk is a real one.
async fn send_file(slice: &FileSlice, stream: &mut TcpStream) -> io::Result<()> {
    let Some(file) = slice.file.as_file() else {
        return stream.write_all(&slice.read()?).await;
    };
    let socket: &TcpStream = stream;
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

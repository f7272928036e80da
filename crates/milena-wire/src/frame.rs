//! Frames: a length, a header, a message.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;

use crate::{
    api::ApiKey,
    decode::{DecodeError, Reader},
    encode::{EncodeError, Encoder, Segments, Size},
    message::{Message, Request, Response},
    messages::{RequestHeader, ResponseHeader},
};

/// Bytes of the length that starts every frame.
pub const LENGTH_SIZE: usize = 4;

/// Checks the length of a frame before anything is allocated for it.
pub fn frame_length(prefix: [u8; LENGTH_SIZE], length_max: usize) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Ok(length) if length <= length_max => Ok(length),
        Ok(length) => Err(FrameError::TooLong { length, length_max }),
        Err(_) => Err(FrameError::Negative { length }),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame length {length} is negative; the peer does not speak Kafka's protocol")]
    Negative { length: i32 },
    #[error("frame length {length} is more than the {length_max} bytes allowed")]
    TooLong { length: usize, length_max: usize },
}

/// A request as the broker sees it: the header is read, the body waits for the handler of its API.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestFrame {
    pub key: ApiKey,
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<ByteString>,
    frame: Bytes,
    body_start: usize,
}

impl RequestFrame {
    /// Reads the header of a frame, without its length.
    ///
    /// Any version of an API is accepted here, since the header's form depends only on flexibility; the body decides
    /// whether it knows the version.
    pub fn parse(frame: Bytes) -> Result<Self, RequestFrameError> {
        let mut reader = Reader::new(&frame, RequestHeader::NAME, 1);
        let api_key = reader.i16("request_api_key")?;
        let version = reader.i16("request_api_version")?;
        let correlation_id = reader.i32("correlation_id")?;
        let Some(key) = ApiKey::from_id(api_key) else {
            return Err(RequestFrameError::UnknownApi {
                api_key,
                version,
                correlation_id,
            });
        };
        let mut reader = Reader::new(&frame, RequestHeader::NAME, key.request_header_version(version));
        let header = RequestHeader::read(&mut reader)?;
        let body_start = reader.offset();
        Ok(Self {
            key,
            version,
            correlation_id,
            client_id: header.client_id,
            frame,
            body_start,
        })
    }

    /// Bytes of the frame, without its length.
    pub fn size(&self) -> usize {
        self.frame.len()
    }

    /// Reads the body. Bytes after it are ignored, as Kafka does.
    pub fn body<R: Request>(&self) -> Result<R, DecodeError> {
        let body = self.frame.slice(self.body_start..);
        let mut reader = Reader::new(&body, R::NAME, self.version);
        reader.check_version(R::VERSIONS)?;
        R::read(&mut reader)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFrameError {
    #[error("API key {api_key} (version {version}, correlation id {correlation_id}) is not one of Kafka 4.3's")]
    UnknownApi {
        api_key: i16,
        version: i16,
        correlation_id: i32,
    },
    #[error(transparent)]
    Header(#[from] DecodeError),
}

/// The request as it goes out, length included.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&ByteString>,
) -> Result<Frame, EncodeError> {
    let header = RequestHeader {
        request_api_key: R::KEY.id(),
        request_api_version: version,
        correlation_id,
        client_id: client_id.cloned(),
        ..RequestHeader::default()
    };
    encode(&header, R::KEY.request_header_version(version), request, version)
}

/// The response as it goes out, length included.
pub fn encode_response<R: Response>(response: &R, version: i16, correlation_id: i32) -> Result<Frame, EncodeError> {
    let header = ResponseHeader {
        correlation_id,
        ..ResponseHeader::default()
    };
    encode(&header, R::KEY.response_header_version(version), response, version)
}

/// The correlation id of a response frame without its length prefix.
pub fn correlation_id(frame: &Bytes) -> Result<i32, DecodeError> {
    Reader::new(frame, ResponseHeader::NAME, 0).i32("correlation_id")
}

/// Reads a response frame, without its length. Bytes after the message are ignored, as Kafka does.
pub fn decode_response<R: Response>(frame: &Bytes, version: i16) -> Result<(i32, R), DecodeError> {
    let mut reader = Reader::new(frame, ResponseHeader::NAME, R::KEY.response_header_version(version));
    let header = ResponseHeader::read(&mut reader)?;
    reader.continue_with(R::NAME, version);
    reader.check_version(R::VERSIONS)?;
    Ok((header.correlation_id, R::read(&mut reader)?))
}

fn encode<H: Message, M: Message>(
    header: &H,
    header_version: i16,
    message: &M,
    version: i16,
) -> Result<Frame, EncodeError> {
    let mut size = Encoder::size(H::NAME, header_version);
    header.measure(&mut size)?;
    size.continue_with(M::NAME, version);
    size.check_version(M::VERSIONS)?;
    message.measure(&mut size)?;
    let length = size.frame_length()?;

    let counted = size.counted();
    let room = Size {
        copied: counted.copied + LENGTH_SIZE,
        ..counted
    };
    let mut encoder = Encoder::gathering(H::NAME, header_version, room);
    encoder.i32(length);
    header.write(&mut encoder)?;
    encoder.continue_with(M::NAME, version);
    message.write(&mut encoder)?;
    Ok(Frame::from(encoder))
}

/// An encoded frame: one allocation, with large record data between its parts by reference.
///
/// It is a [`Buf`], so a vectored write sends it without joining the parts.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    segments: VecDeque<Bytes>,
    left: usize,
}

impl Frame {
    pub fn segments(&self) -> impl Iterator<Item = &Bytes> {
        self.segments.iter()
    }

    /// All bytes in one piece; copies if there is more than one segment.
    pub fn into_bytes(mut self) -> Bytes {
        if self.segments.len() <= 1 {
            return self.segments.pop_front().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(self.left);
        for segment in &self.segments {
            joined.extend_from_slice(segment);
        }
        joined.freeze()
    }
}

impl From<Encoder<Segments>> for Frame {
    fn from(encoder: Encoder<Segments>) -> Self {
        let segments = VecDeque::from(encoder.into_segments());
        let left = segments.iter().map(Bytes::len).sum();
        Self { segments, left }
    }
}

impl Buf for Frame {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.segments.front().map_or(&[], |segment| segment)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            *slice = IoSlice::new(segment);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.left, "cannot advance {count} of {} bytes", self.left);
        self.left -= count;
        while let Some(front) = self.segments.front_mut() {
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.segments.pop_front();
        }
    }
}

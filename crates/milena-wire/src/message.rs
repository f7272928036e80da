//! The traits of all messages of the protocol.

use std::fmt;

use bytes::Bytes;

use crate::{
    api::ApiKey,
    decode::{DecodeError, Reader},
    encode::{EncodeError, Encoder, Segments, Size},
    errors::ErrorCode,
};

/// A message of Kafka's protocol, in all its versions at once: fields that a version lacks have their default there.
pub trait Message: Sized {
    /// Kafka's name of the message.
    const NAME: &'static str;
    /// The versions that can be read and written.
    const VERSIONS: VersionRange;
    /// The first version with compact lengths and tagged fields; `None` if no version has them.
    const FLEXIBLE_SINCE: Option<i16>;

    /// Reads the message at the reader's version and leaves the bytes after it unread.
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Counts the bytes that [`Message::write`] writes.
    fn measure(&self, encoder: &mut Encoder<Size>) -> Result<(), EncodeError>;

    /// Writes the message at the encoder's version.
    fn write(&self, encoder: &mut Encoder<Segments>) -> Result<(), EncodeError>;

    /// Reads a message that fills `bytes` exactly.
    fn decode(bytes: &Bytes, version: i16) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, Self::NAME, version);
        reader.check_version(Self::VERSIONS)?;
        let message = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(message)
    }

    /// Writes the message alone, in one piece.
    fn encode(&self, version: i16) -> Result<Bytes, EncodeError> {
        let size = self.size(version)?;
        let mut encoder = Encoder::contiguous(Self::NAME, version, size);
        self.write(&mut encoder)?;
        Ok(encoder.into_bytes())
    }

    /// Exact number of bytes at `version`.
    fn size(&self, version: i16) -> Result<usize, EncodeError> {
        let mut encoder = Encoder::size(Self::NAME, version);
        encoder.check_version(Self::VERSIONS)?;
        self.measure(&mut encoder)?;
        Ok(encoder.total())
    }
}

/// A message a client sends.
pub trait Request: Message {
    const KEY: ApiKey;
    type Response: Response;

    /// Returns the response that fails the whole request with `error`; `None` if this version has no field for it.
    ///
    /// The error is at the top of the response where the version has a place for it, else in each row that the request
    /// names. An empty list of rows would be read as a success, so a request that names nothing may have no error response.
    fn error_response(&self, version: i16, error: ErrorCode) -> Option<Self::Response>;
}

/// A response of a broker.
pub trait Response: Message {
    const KEY: ApiKey;

    /// Sets the throttle time. Responses without such a field stay unchanged.
    fn set_throttle_time_ms(&mut self, _throttle_time_ms: i32) {}

    /// Reports each error code of the response that is not 0, at the top and in all rows.
    fn for_each_error(&self, _report: &mut dyn FnMut(i16)) {}
}

/// Versions from `min` to `max`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VersionRange {
    pub min: i16,
    pub max: i16,
}

impl VersionRange {
    pub const fn new(min: i16, max: i16) -> Self {
        Self { min, max }
    }

    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// The versions both sides have; `None` if they have none in common.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = Self::new(self.min.max(other.min), self.max.min(other.max));
        (both.min <= both.max).then_some(both)
    }

    pub fn iter(self) -> std::ops::RangeInclusive<i16> {
        self.min..=self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

//! Writing messages: first the size, then the bytes, into one allocation.

use bytes::Bytes;

use crate::{Uuid, message::VersionRange, tags::UnknownTags};

/// Record data from this size on is passed along by reference; below it a copy is cheaper than one more segment.
const SHARE_FROM: usize = 1024;

/// Writes fields into a sink: [`Size`] only counts, [`Segments`] keeps the bytes. The same generated code drives
/// both, so that the size always equals the bytes written.
#[derive(Debug)]
pub struct Encoder<S> {
    sink: S,
    message: &'static str,
    version: i16,
}

/// Destination of encoded bytes.
pub trait Sink {
    fn put(&mut self, bytes: &[u8]);

    /// Record data, which may be large and is already in memory.
    fn put_shared(&mut self, bytes: &Bytes);
}

/// Counts bytes: those that are copied into the frame, and those that are passed along by reference.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    pub copied: usize,
    pub shared: usize,
}

impl Sink for Size {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.copied += bytes.len();
    }

    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARE_FROM {
            self.copied += bytes.len();
        } else {
            self.shared += bytes.len();
        }
    }
}

/// Encoded bytes in one allocation, and the record data that belongs between them.
#[derive(Debug)]
pub struct Segments {
    copied: Vec<u8>,
    /// Shared data, each with the number of copied bytes that come before it.
    shared: Vec<(usize, Bytes)>,
    share_from: usize,
}

impl Sink for Segments {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < self.share_from {
            self.put(bytes);
        } else {
            self.shared.push((self.copied.len(), bytes.clone()));
        }
    }
}

type Written = Result<(), EncodeError>;

impl Encoder<Size> {
    pub fn size(message: &'static str, version: i16) -> Self {
        Self::new(Size::default(), message, version)
    }

    pub fn counted(&self) -> Size {
        self.sink
    }

    pub fn total(&self) -> usize {
        self.sink.copied + self.sink.shared
    }

    /// The counted bytes, as the length of a frame.
    pub(crate) fn frame_length(&self) -> Result<i32, EncodeError> {
        i32::try_from(self.total()).map_err(|_| self.too_long(self.total(), ""))
    }
}

impl Encoder<Segments> {
    /// Writes exactly `size` bytes in one piece.
    pub fn contiguous(message: &'static str, version: i16, size: usize) -> Self {
        Self::with_capacity(message, version, size, usize::MAX)
    }

    /// Writes `size.copied` bytes and passes the rest along by reference.
    pub fn gathering(message: &'static str, version: i16, size: Size) -> Self {
        Self::with_capacity(message, version, size.copied, SHARE_FROM)
    }

    fn with_capacity(message: &'static str, version: i16, capacity: usize, share_from: usize) -> Self {
        let sink = Segments {
            copied: Vec::with_capacity(capacity),
            shared: Vec::new(),
            share_from,
        };
        Self::new(sink, message, version)
    }

    /// The bytes in order: runs of copied ones, all from one allocation, with shared data between them.
    pub fn into_segments(self) -> Vec<Bytes> {
        let copied = Bytes::from(self.sink.copied);
        let mut segments = Vec::with_capacity(2 * self.sink.shared.len() + 1);
        let mut start = 0;
        for (end, shared) in self.sink.shared {
            segments.push(copied.slice(start..end));
            segments.push(shared);
            start = end;
        }
        if start < copied.len() {
            segments.push(copied.slice(start..));
        }
        segments
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        debug_assert!(self.sink.shared.is_empty(), "a contiguous encoder shares nothing");
        Bytes::from(self.sink.copied)
    }
}

impl<S: Sink> Encoder<S> {
    fn new(sink: S, message: &'static str, version: i16) -> Self {
        Self { sink, message, version }
    }

    /// Continues with another message in the same frame: the body after its header.
    pub fn continue_with(&mut self, message: &'static str, version: i16) {
        self.message = message;
        self.version = version;
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    /// Refuses a version outside `supported`.
    pub fn check_version(&self, supported: VersionRange) -> Written {
        if supported.contains(self.version) {
            Ok(())
        } else {
            Err(self.error("", EncodeProblem::UnsupportedVersion { supported }))
        }
    }

    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.i8(i8::from(value));
    }

    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.sink.put(&value.to_be_bytes());
    }

    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.sink.put(&value.to_be_bytes());
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.sink.put(&value.to_be_bytes());
    }

    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.sink.put(&value.to_be_bytes());
    }

    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.sink.put(&value.to_be_bytes());
    }

    #[inline]
    pub fn f64(&mut self, value: f64) {
        self.sink.put(&value.to_be_bytes());
    }

    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.sink.put(value.as_bytes());
    }

    pub fn string(&mut self, flexible: bool, value: &str, field: &'static str) -> Written {
        // Kafka refuses longer strings in both forms, though only the old form limits their length.
        let Ok(length) = i16::try_from(value.len()) else {
            return Err(self.too_long(value.len(), field));
        };
        if flexible {
            self.varint(length as u32 + 1);
        } else {
            self.i16(length);
        }
        self.sink.put(value.as_bytes());
        Ok(())
    }

    pub fn null_string(&mut self, flexible: bool) {
        if flexible {
            self.varint(0);
        } else {
            self.i16(-1);
        }
    }

    pub fn bytes(&mut self, flexible: bool, value: &[u8], field: &'static str) -> Written {
        self.length(flexible, value.len(), field)?;
        self.sink.put(value);
        Ok(())
    }

    /// Record data: as bytes, but large ones are not copied into the frame.
    pub fn records(&mut self, flexible: bool, value: &Bytes, field: &'static str) -> Written {
        self.length(flexible, value.len(), field)?;
        self.sink.put_shared(value);
        Ok(())
    }

    /// Null for bytes, records and arrays.
    pub fn null(&mut self, flexible: bool) {
        if flexible {
            self.varint(0);
        } else {
            self.i32(-1);
        }
    }

    #[inline]
    pub fn array<T>(
        &mut self,
        flexible: bool,
        values: &[T],
        field: &'static str,
        mut element: impl FnMut(&mut Self, &T) -> Written,
    ) -> Written {
        self.length(flexible, values.len(), field)?;
        for value in values {
            element(self, value)?;
        }
        Ok(())
    }

    /// The tagged fields at the end of a struct: how many are `known` ones, which the caller writes next.
    pub fn tag_count(&mut self, known: u32, unknown: &UnknownTags) {
        self.varint(known + unknown.len() as u32);
    }

    /// The start of a tagged field, whose `size` bytes the caller writes next.
    pub fn tag(&mut self, tag: u32, size: usize) {
        self.varint(tag);
        self.varint(size as u32);
    }

    /// Encoded size of a tagged field.
    pub fn size_of(&self, write: impl FnOnce(&mut Encoder<Size>) -> Written) -> Result<usize, EncodeError> {
        let mut encoder = Encoder::size(self.message, self.version);
        write(&mut encoder)?;
        Ok(encoder.total())
    }

    pub fn unknown_tags(&mut self, unknown: &UnknownTags) {
        for (tag, payload) in unknown.iter() {
            self.tag(tag, payload.len());
            self.sink.put(payload);
        }
    }

    /// `field` has a value, but this version lacks the field.
    #[cold]
    pub fn not_in_version(&self, field: &'static str) -> EncodeError {
        self.error(field, EncodeProblem::NotInVersion)
    }

    /// `field` is null, but it is not nullable in this version.
    #[cold]
    pub fn null_not_allowed(&self, field: &'static str) -> EncodeError {
        self.error(field, EncodeProblem::NullNotAllowed)
    }

    #[inline]
    fn length(&mut self, flexible: bool, length: usize, field: &'static str) -> Written {
        let Ok(signed) = i32::try_from(length) else {
            return Err(self.too_long(length, field));
        };
        if flexible {
            self.varint(signed as u32 + 1);
        } else {
            self.i32(signed);
        }
        Ok(())
    }

    #[inline]
    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.sink.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.sink.put(&[value as u8]);
    }

    #[cold]
    fn too_long(&self, length: usize, field: &'static str) -> EncodeError {
        self.error(field, EncodeProblem::TooLong { length })
    }

    #[cold]
    fn error(&self, field: &'static str, problem: EncodeProblem) -> EncodeError {
        EncodeError {
            message: self.message,
            version: self.version,
            field,
            problem,
        }
    }
}

/// A value that a version of the protocol cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} version {version}{}{field}: {problem}", if field.is_empty() { "" } else { ", field " })]
pub struct EncodeError {
    pub message: &'static str,
    pub version: i16,
    /// The field being written; empty when the message as a whole is refused.
    pub field: &'static str,
    pub problem: EncodeProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeProblem {
    #[error("is set, but this version does not have it")]
    NotInVersion,
    #[error("is null, which this version does not allow")]
    NullNotAllowed,
    #[error("length {length} is more than the protocol allows")]
    TooLong { length: usize },
    #[error("version is outside the supported {supported}")]
    UnsupportedVersion { supported: VersionRange },
}

//! Reading messages: a cursor over one frame that cannot be hurt by hostile bytes.

use bytes::Bytes;
use bytestring::ByteString;

use crate::{Uuid, message::VersionRange, tags::UnknownTags, varint};

/// A cursor over the bytes of one message.
///
/// Strings and byte fields are slices of the frame that share its buffer. Every count is checked against the
/// remaining bytes before anything is allocated. `field` is the name of the field for the error; it costs nothing
/// on success.
#[derive(Debug)]
pub struct Reader<'a> {
    frame: &'a Bytes,
    /// The remaining bytes; always a part of `frame`.
    rest: &'a [u8],
    /// End of `rest` inside `frame`.
    end: usize,
    message: &'static str,
    version: i16,
}

type Read<T> = Result<T, DecodeError>;

impl<'a> Reader<'a> {
    /// Reads `message`, in `version`, from the start of `frame`.
    pub fn new(frame: &'a Bytes, message: &'static str, version: i16) -> Self {
        Self {
            frame,
            rest: frame,
            end: frame.len(),
            message,
            version,
        }
    }

    /// Continues with another message in the same frame: the body after its header.
    pub fn continue_with(&mut self, message: &'static str, version: i16) {
        self.message = message;
        self.version = version;
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    /// Bytes not yet read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Position of the next byte in the frame.
    pub fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Refuses a version outside `supported`.
    pub fn check_version(&self, supported: VersionRange) -> Read<()> {
        if supported.contains(self.version) {
            Ok(())
        } else {
            Err(self.error("", DecodeProblem::UnsupportedVersion { supported }))
        }
    }

    /// Refuses bytes after the end of the message.
    pub fn finish(&self) -> Read<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.error("", DecodeProblem::TrailingBytes { left })),
        }
    }

    /// Everything that is left, sharing the frame's buffer.
    pub fn remaining(&mut self) -> Bytes {
        let start = self.offset();
        self.rest = &[];
        self.frame.slice(start..self.end)
    }

    #[inline]
    pub fn bool(&mut self, field: &'static str) -> Read<bool> {
        Ok(self.i8(field)? != 0)
    }

    #[inline]
    pub fn i8(&mut self, field: &'static str) -> Read<i8> {
        Ok(i8::from_be_bytes(self.chunk(field)?))
    }

    #[inline]
    pub fn i16(&mut self, field: &'static str) -> Read<i16> {
        Ok(i16::from_be_bytes(self.chunk(field)?))
    }

    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Read<u16> {
        Ok(u16::from_be_bytes(self.chunk(field)?))
    }

    #[inline]
    pub fn i32(&mut self, field: &'static str) -> Read<i32> {
        Ok(i32::from_be_bytes(self.chunk(field)?))
    }

    #[inline]
    pub fn i64(&mut self, field: &'static str) -> Read<i64> {
        Ok(i64::from_be_bytes(self.chunk(field)?))
    }

    #[inline]
    pub fn f64(&mut self, field: &'static str) -> Read<f64> {
        Ok(f64::from_be_bytes(self.chunk(field)?))
    }

    #[inline]
    pub fn uuid(&mut self, field: &'static str) -> Read<Uuid> {
        Ok(Uuid::from_bytes(self.chunk(field)?))
    }

    pub fn string(&mut self, flexible: bool, field: &'static str) -> Read<ByteString> {
        self.nullable_string(flexible, field)?
            .ok_or_else(|| self.error(field, DecodeProblem::NullNotAllowed))
    }

    pub fn nullable_string(&mut self, flexible: bool, field: &'static str) -> Read<Option<ByteString>> {
        let length = if flexible {
            self.compact_length(field)?
        } else {
            i64::from(self.i16(field)?)
        };
        let Some(bytes) = self.sized(length, field)? else {
            return Ok(None);
        };
        ByteString::try_from(bytes)
            .map(Some)
            .map_err(|_| self.error(field, DecodeProblem::NotUtf8))
    }

    pub fn bytes(&mut self, flexible: bool, field: &'static str) -> Read<Bytes> {
        self.nullable_bytes(flexible, field)?
            .ok_or_else(|| self.error(field, DecodeProblem::NullNotAllowed))
    }

    pub fn nullable_bytes(&mut self, flexible: bool, field: &'static str) -> Read<Option<Bytes>> {
        let length = self.length(flexible, field)?;
        self.sized(length, field)
    }

    /// An array whose elements take at least `element_size` bytes each.
    #[inline]
    pub fn array<T>(
        &mut self,
        flexible: bool,
        field: &'static str,
        element_size: usize,
        element: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        self.nullable_array(flexible, field, element_size, element)?
            .ok_or_else(|| self.error(field, DecodeProblem::NullNotAllowed))
    }

    /// As [`Reader::array`], where null is a value.
    #[inline]
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        field: &'static str,
        element_size: usize,
        mut element: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        let length = self.length(flexible, field)?;
        if length == -1 {
            return Ok(None);
        }
        let count = self.checked_count(length, element_size, field)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    /// A struct behind a marker byte: -1 is null, 1 is present.
    pub fn nullable_struct<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.i8(field)? {
            -1 => Ok(None),
            1 => read(self).map(Some),
            marker => Err(self.error(field, DecodeProblem::BadNullMarker { marker })),
        }
    }

    /// The tagged fields at the end of a struct. `known` reads a tag of this version and returns `true`; any
    /// other tag is kept unchanged, so that a message of a newer Kafka survives decoding and encoding.
    pub fn tags(&mut self, mut known: impl FnMut(u32, &mut Self) -> Read<bool>) -> Read<UnknownTags> {
        let mut unknown = UnknownTags::default();
        let count = self.varint("tagged fields")?;
        for _ in 0..count {
            let tag = self.varint("tag")?;
            let size = self.varint("tagged field size")?;
            let payload = self.take(size as usize, "tagged field")?;
            let mut inside = Reader {
                rest: payload,
                end: self.offset(),
                ..*self
            };
            if !known(tag, &mut inside)? {
                unknown.push(tag, inside.remaining());
            } else if inside.left() > 0 {
                let left = inside.left();
                return Err(inside.error("tagged field", DecodeProblem::TagPayloadLeft { tag, left }));
            }
        }
        Ok(unknown)
    }

    fn checked_count(&self, length: i64, element_size: usize, field: &'static str) -> Read<usize> {
        let left = self.left();
        match usize::try_from(length) {
            Ok(count) if count <= left / element_size.max(1) => Ok(count),
            Ok(_) => Err(self.error(field, DecodeProblem::CountTooLarge { count: length, left })),
            Err(_) => Err(self.error(field, DecodeProblem::NegativeLength { length })),
        }
    }

    /// A length of bytes or elements; -1 is null.
    #[inline]
    fn length(&mut self, flexible: bool, field: &'static str) -> Read<i64> {
        if flexible {
            self.compact_length(field)
        } else {
            Ok(i64::from(self.i32(field)?))
        }
    }

    #[inline]
    fn compact_length(&mut self, field: &'static str) -> Read<i64> {
        Ok(i64::from(self.varint(field)?) - 1)
    }

    #[inline]
    fn varint(&mut self, field: &'static str) -> Read<u32> {
        match varint::read_u32(self.rest) {
            Ok((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            Err(varint::VarintError::Truncated) => Err(self.error(
                field,
                DecodeProblem::Truncated {
                    needed: self.left() + 1,
                    left: self.left(),
                },
            )),
            Err(varint::VarintError::TooLong) => Err(self.error(field, DecodeProblem::VarintTooLong)),
        }
    }

    fn sized(&mut self, length: i64, field: &'static str) -> Read<Option<Bytes>> {
        match usize::try_from(length) {
            Ok(length) => {
                self.take(length, field)?;
                let end = self.offset();
                Ok(Some(self.frame.slice(end - length..end)))
            }
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(self.error(field, DecodeProblem::NegativeLength { length })),
        }
    }

    #[inline]
    fn take(&mut self, length: usize, field: &'static str) -> Read<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.truncated(length, field));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        let Some((chunk, rest)) = self.rest.split_first_chunk() else {
            return Err(self.truncated(N, field));
        };
        self.rest = rest;
        Ok(*chunk)
    }

    #[cold]
    fn truncated(&self, needed: usize, field: &'static str) -> DecodeError {
        let left = self.left();
        self.error(field, DecodeProblem::Truncated { needed, left })
    }

    #[cold]
    fn error(&self, field: &'static str, problem: DecodeProblem) -> DecodeError {
        DecodeError(Box::new(DecodeFacts {
            message: self.message,
            version: self.version,
            field,
            offset: self.offset(),
            problem,
        }))
    }
}

/// Bytes that are not the message they claim to be. Boxed, because it travels through every read of the hot path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct DecodeError(Box<DecodeFacts>);

impl std::ops::Deref for DecodeError {
    type Target = DecodeFacts;

    fn deref(&self) -> &DecodeFacts {
        &self.0
    }
}

/// The position and reason of a decoding failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} version {version}, {}byte {offset}: {problem}", Named(field))]
pub struct DecodeFacts {
    pub message: &'static str,
    pub version: i16,
    /// The field being read; empty when the message as a whole is refused.
    pub field: &'static str,
    /// Position in the frame.
    pub offset: usize,
    pub problem: DecodeProblem,
}

struct Named<'a>(&'a str);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "field {}, ", self.0)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    #[error("{needed} bytes needed, {left} left")]
    Truncated { needed: usize, left: usize },
    #[error("length {length} is negative")]
    NegativeLength { length: i64 },
    #[error("{count} elements cannot fit in the {left} bytes left")]
    CountTooLarge { count: i64, left: usize },
    #[error("null is not allowed in this version")]
    NullNotAllowed,
    #[error("not valid UTF-8")]
    NotUtf8,
    #[error("a varint of more than 32 bits")]
    VarintTooLong,
    #[error("null marker is {marker}, neither -1 nor 1")]
    BadNullMarker { marker: i8 },
    #[error("{left} bytes of tag {tag} were not understood")]
    TagPayloadLeft { tag: u32, left: usize },
    #[error("version is outside the supported {supported}")]
    UnsupportedVersion { supported: VersionRange },
    #[error("{left} bytes after the end of the message")]
    TrailingBytes { left: usize },
}

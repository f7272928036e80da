//! Deserializers of keys and values.
//!
//! [`Plain`] reads the formats of Kafka's own serializers, chosen by the target type. [`Json`] reads JSON with `serde`.
//! [`Nullable`] accepts null. A closure is a deserializer too. [`AnyDeserializer`] is chosen by configuration, and its
//! values can be printed.
//!
//! ```
//! use milena_client::consumer::deserialize::{BoxError, Deserializer, Plain, RecordField, Source};
//!
//! let source = Source::new("orders", RecordField::Value, Some(b"\0\0\0\x07"));
//! let number: i32 = Plain.deserialize(&source)?;
//! assert_eq!(number, 7);
//!
//! let length = |source: &Source<'_>| Ok(source.required()?.len());
//! assert_eq!(length.deserialize(&source)?, 4);
//!
//! let tombstone = Source::new("orders", RecordField::Value, None);
//! assert_eq!(Deserializer::<Option<i32>>::deserialize(&Plain, &tombstone)?, None);
//! assert!(Deserializer::<i32>::deserialize(&Plain, &tombstone).is_err());
//! # Ok::<(), BoxError>(())
//! ```

mod any;
mod error;
mod json;
mod plain;

use std::fmt;

use milena_wire::records::Headers;

pub use any::{AnyDeserializer, AnyValue};
pub use error::{DeserializeError, NotPlain, NullField};
pub use json::Json;
pub use plain::Plain;

/// The reason why bytes cannot be deserialized.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Converts the bytes of a key or value.
pub trait Deserializer<T> {
    fn deserialize(&self, source: &Source<'_>) -> Result<T, BoxError>;
}

/// The bytes of a key or value, with their context.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Source<'a> {
    pub topic: &'a str,
    pub field: RecordField,
    /// The headers of the record.
    pub headers: Headers<'a>,
    /// `None` is null; a null value is a tombstone.
    pub data: Option<&'a [u8]>,
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordField {
    Key,
    Value,
}

impl<'a> Source<'a> {
    /// A source without headers.
    pub fn new(topic: &'a str, field: RecordField, data: Option<&'a [u8]>) -> Self {
        Self {
            topic,
            field,
            headers: Headers::default(),
            data,
        }
    }

    #[must_use]
    pub fn with_headers(mut self, headers: Headers<'a>) -> Self {
        self.headers = headers;
        self
    }

    /// The bytes, or an error if they are null.
    pub fn required(&self) -> Result<&'a [u8], NullField> {
        self.data.ok_or(NullField { field: self.field })
    }
}

impl fmt::Display for RecordField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Value => "value",
        })
    }
}

impl<T, F> Deserializer<T> for F
where
    F: Fn(&Source<'_>) -> Result<T, BoxError>,
{
    fn deserialize(&self, source: &Source<'_>) -> Result<T, BoxError> {
        self(source)
    }
}

/// Null becomes `None`; the inner deserializer reads everything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nullable<D>(pub D);

impl<T, D: Deserializer<T>> Deserializer<Option<T>> for Nullable<D> {
    fn deserialize(&self, source: &Source<'_>) -> Result<Option<T>, BoxError> {
        match source.data {
            Some(_) => self.0.deserialize(source).map(Some),
            None => Ok(None),
        }
    }
}

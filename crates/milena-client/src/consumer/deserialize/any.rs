//! Values of a type that is known only at run time.

use std::fmt;

use bytes::Bytes;
use milena_wire::Uuid;

use super::{BoxError, Deserializer, Json, Plain, Source};
use crate::config::DeserializerName;

/// The deserializer of `key.deserializer` or `value.deserializer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyDeserializer {
    pub name: DeserializerName,
}

/// A value of any configured type, which can be printed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AnyValue {
    Null,
    String(String),
    Bytes(Bytes),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    Uuid(Uuid),
    Json(serde_json::Value),
}

impl From<DeserializerName> for AnyDeserializer {
    fn from(name: DeserializerName) -> Self {
        Self { name }
    }
}

/// Null is a valid value of every type.
impl Deserializer<AnyValue> for AnyDeserializer {
    fn deserialize(&self, source: &Source<'_>) -> Result<AnyValue, BoxError> {
        if source.data.is_none() {
            return Ok(AnyValue::Null);
        }
        match self.name {
            DeserializerName::String => Plain.deserialize(source).map(AnyValue::String),
            DeserializerName::Bytes => Plain.deserialize(source).map(AnyValue::Bytes),
            DeserializerName::I16 => Plain.deserialize(source).map(AnyValue::I16),
            DeserializerName::I32 => Plain.deserialize(source).map(AnyValue::I32),
            DeserializerName::I64 => Plain.deserialize(source).map(AnyValue::I64),
            DeserializerName::F32 => Plain.deserialize(source).map(AnyValue::F32),
            DeserializerName::F64 => Plain.deserialize(source).map(AnyValue::F64),
            DeserializerName::Bool => Plain.deserialize(source).map(AnyValue::Bool),
            DeserializerName::Uuid => Plain.deserialize(source).map(AnyValue::Uuid),
            DeserializerName::Json => Json.deserialize(source).map(AnyValue::Json),
            DeserializerName::Void => Plain.deserialize(source).map(|()| AnyValue::Null),
        }
    }
}

/// Bytes and ids become text as they are printed. A number that JSON lacks, such as NaN, becomes null.
impl From<AnyValue> for serde_json::Value {
    fn from(value: AnyValue) -> Self {
        match value {
            AnyValue::Null => Self::Null,
            AnyValue::String(text) => Self::from(text),
            AnyValue::I16(number) => Self::from(number),
            AnyValue::I32(number) => Self::from(number),
            AnyValue::I64(number) => Self::from(number),
            AnyValue::F32(number) => Self::from(number),
            AnyValue::F64(number) => Self::from(number),
            AnyValue::Bool(value) => Self::from(value),
            AnyValue::Json(value) => value,
            value @ (AnyValue::Bytes(_) | AnyValue::Uuid(_)) => Self::from(value.to_string()),
        }
    }
}

/// Bytes are printed as UTF-8, invalid ones as `\xNN`; an id has dashes.
impl fmt::Display for AnyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::String(text) => f.write_str(text),
            Self::Bytes(bytes) => print_bytes(bytes, f),
            Self::I16(number) => write!(f, "{number}"),
            Self::I32(number) => write!(f, "{number}"),
            Self::I64(number) => write!(f, "{number}"),
            Self::F32(number) => write!(f, "{number}"),
            Self::F64(number) => write!(f, "{number}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Uuid(id) => print_uuid(id, f),
            Self::Json(value) => write!(f, "{value}"),
        }
    }
}

fn print_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        f.write_str(chunk.valid())?;
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

fn print_uuid(id: &Uuid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, byte) in id.as_bytes().iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
}

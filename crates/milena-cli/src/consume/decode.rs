//! Keys and values decoded by `key.deserializer` and `value.deserializer`.

use std::io::{self, Write};

use milena_app::json::Text;
use milena_client::{
    config::{ConsumerConfig, DeserializerName},
    consumer::{
        RecordRef,
        deserialize::{AnyDeserializer, AnyValue, RecordField},
    },
};
use serde::Serialize;

/// The configured deserializers of keys and values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoding {
    key: DeserializerName,
    value: DeserializerName,
}

/// A key or a value in JSON: text, unless another type is configured.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum FieldValue<'a> {
    Text(Text<'a>),
    Value(serde_json::Value),
}

impl Decoding {
    pub(super) fn new(config: &ConsumerConfig) -> Self {
        Self {
            key: config.key_deserializer,
            value: config.value_deserializer,
        }
    }

    /// Writes bytes and text unchanged, other types in their text form, and nothing for null.
    pub(super) fn write(self, out: &mut impl Write, record: &RecordRef<'_>, field: RecordField) -> io::Result<()> {
        match self.read(record, field)? {
            Some(value) => write!(out, "{value}"),
            None => out.write_all(bytes(record, field).unwrap_or_default()),
        }
    }

    pub(super) fn to_json<'a>(self, record: &RecordRef<'a>, field: RecordField) -> io::Result<Option<FieldValue<'a>>> {
        Ok(match self.read(record, field)? {
            Some(value) => Some(FieldValue::Value(value.into())),
            None => bytes(record, field).map(Text).map(FieldValue::Text),
        })
    }

    /// The value of a type other than bytes and text; `None` for bytes, text and null.
    fn read(self, record: &RecordRef<'_>, field: RecordField) -> io::Result<Option<AnyValue>> {
        let name = match field {
            RecordField::Key => self.key,
            RecordField::Value => self.value,
        };
        if matches!(name, DeserializerName::Bytes | DeserializerName::String) {
            return Ok(None);
        }
        let deserializer = AnyDeserializer::from(name);
        let read = match field {
            RecordField::Key => record.key_as(&deserializer),
            RecordField::Value => record.value_as(&deserializer),
        };
        let value = read.map_err(io::Error::other)?;
        Ok(Some(value).filter(|value| *value != AnyValue::Null))
    }
}

fn bytes<'a>(record: &RecordRef<'a>, field: RecordField) -> Option<&'a [u8]> {
    match field {
        RecordField::Key => record.key(),
        RecordField::Value => record.value(),
    }
}

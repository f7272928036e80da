//! Records in lines of input.

use std::borrow::Cow;

use milena_app::json::WrittenText;
use milena_client::producer::Header;
use serde::Deserialize;

/// The record of a line. The value is borrowed from the line if possible.
#[derive(Debug)]
pub(super) struct Line<'a> {
    value: Option<Cow<'a, [u8]>>,
    fields: Fields,
}

#[derive(Debug, Default)]
struct Fields {
    key: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    partition: Option<i32>,
    timestamp: Option<i64>,
}

/// An object as `milena consume -f json` prints it. Topic and offset are ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    key: Option<WrittenText>,
    value: Option<WrittenText>,
    #[serde(default)]
    headers: Vec<ObjectHeader>,
    partition: Option<i32>,
    timestamp: Option<i64>,
    #[serde(rename = "topic")]
    _topic: Option<String>,
    #[serde(rename = "offset")]
    _offset: Option<i64>,
    #[serde(rename = "timestamp_type")]
    _timestamp_type: Option<String>,
}

#[derive(Deserialize)]
struct ObjectHeader {
    key: WrittenText,
    value: Option<WrittenText>,
}

fn bytes(text: WrittenText) -> Result<Vec<u8>, String> {
    text.bytes().map_err(|error| format!("bad base64: {error}"))
}

impl<'a> Line<'a> {
    pub(super) fn of_value(text: &'a [u8]) -> Self {
        Self {
            value: Some(Cow::Borrowed(text)),
            fields: Fields::default(),
        }
    }

    /// Splits at the first separator; a line without one is a value.
    pub(super) fn of_key_and_value(text: &'a [u8], separator: &[u8]) -> Self {
        let at = text.windows(separator.len()).position(|window| window == separator);
        let parts = at.and_then(|at| Some((text.get(..at)?, text.get(at + separator.len()..)?)));
        let Some((key, value)) = parts else {
            return Self::of_value(text);
        };
        Self {
            value: Some(Cow::Borrowed(value)),
            fields: Fields {
                key: Some(key.to_vec()),
                ..Fields::default()
            },
        }
    }

    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let object: Object = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut headers = vec![];
        for header in object.headers {
            headers.push((bytes(header.key)?, header.value.map(bytes).transpose()?));
        }
        Ok(Self {
            value: object.value.map(bytes).transpose()?.map(Cow::Owned),
            fields: Fields {
                key: object.key.map(bytes).transpose()?,
                headers,
                partition: object.partition,
                timestamp: object.timestamp,
            },
        })
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        self.fields.key.as_deref()
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        self.fields.headers.iter().map(|(key, value)| Header {
            key,
            value: value.as_deref(),
        })
    }

    pub(super) fn partition(&self) -> Option<i32> {
        self.fields.partition
    }

    pub(super) fn timestamp(&self) -> Option<i64> {
        self.fields.timestamp
    }
}

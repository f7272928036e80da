//! Places of values in events.

use std::fmt;

use milena_client::consumer::RecordRef;
use serde_json::Value;

/// Place of a saga's id, or of an event's type, in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Locator {
    /// The value of a header.
    Header(String),
    /// The key of the record.
    Key,
    /// A field of the record's JSON value; nested fields are separated by dots.
    Json(String),
}

impl Locator {
    pub fn header(name: impl Into<String>) -> Self {
        Self::Header(name.into())
    }

    pub fn json(field: impl Into<String>) -> Self {
        Self::Json(field.into())
    }

    /// Reads the text at this place of a record. A JSON number is text too.
    pub fn find(&self, record: RecordRef<'_>) -> Result<String, LocateError> {
        let place = || self.to_string();
        let text = match self {
            Self::Header(name) => {
                let mut headers = record.headers();
                let found = headers.find(|header| header.key == name.as_bytes());
                utf8(found.and_then(|header| header.value), place)?
            }
            Self::Key => utf8(record.key(), place)?,
            Self::Json(field) => json_field(record.value(), field, place)?,
        };
        match text.is_empty() {
            true => Err(LocateError::Missing { place: place() }),
            false => Ok(text),
        }
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header {name}"),
            Self::Key => f.write_str("the key"),
            Self::Json(field) => write!(f, "the JSON field {field}"),
        }
    }
}

fn utf8(bytes: Option<&[u8]>, place: impl Fn() -> String) -> Result<String, LocateError> {
    let bytes = bytes.ok_or_else(|| LocateError::Missing { place: place() })?;
    let text = std::str::from_utf8(bytes).map_err(|_| LocateError::NotText { place: place() })?;
    Ok(text.to_owned())
}

fn json_field(value: Option<&[u8]>, field: &str, place: impl Fn() -> String) -> Result<String, LocateError> {
    let bytes = value.ok_or_else(|| LocateError::Missing { place: place() })?;
    let json: Value = serde_json::from_slice(bytes).map_err(|error| LocateError::NotJson {
        problem: error.to_string(),
    })?;
    let found = field.split('.').try_fold(&json, |value, name| value.get(name));
    match found {
        None | Some(Value::Null) => Err(LocateError::Missing { place: place() }),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(LocateError::NotText { place: place() }),
    }
}

/// A record without the value that a saga needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    #[error("the record does not have {place}")]
    Missing { place: String },
    #[error("{place} is not text")]
    NotText { place: String },
    #[error("the record's value is not JSON: {problem}")]
    NotJson { problem: String },
}

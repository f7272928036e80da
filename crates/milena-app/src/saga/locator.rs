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
        if text.is_empty() {
            return Err(LocateError::Missing { place: place() });
        }
        Ok(text)
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testing::{record_with_headers, records_with_values};

    #[test]
    fn a_header_has_text() {
        let headers = [
            (b"correlation_id".to_vec(), Some(Bytes::from_static(b"4711"))),
            (b"bytes".to_vec(), Some(Bytes::from_static(b"\xff"))),
            (b"empty".to_vec(), Some(Bytes::new())),
            (b"null".to_vec(), None),
        ];
        let records = record_with_headers(&headers);
        let record = records.iter().next().unwrap();
        let find = |name: &str| Locator::header(name).find(record);
        assert_eq!(find("correlation_id").as_deref(), Ok("4711"));
        for name in ["empty", "null", "other"] {
            let place = format!("the header {name}");
            assert_eq!(find(name), Err(LocateError::Missing { place }));
        }
        let place = "the header bytes".to_owned();
        assert_eq!(find("bytes"), Err(LocateError::NotText { place }));
        let place = "the key".to_owned();
        assert_eq!(Locator::Key.find(record), Err(LocateError::Missing { place }));
    }

    #[test]
    fn a_json_field_has_text_or_a_number() {
        let records = records_with_values(&[
            r#"{"order": {"id": "a-1", "count": 3, "open": true}}"#,
            "no json",
            r#"[1, 2]"#,
        ]);
        let find = |place: usize, field: &str| Locator::json(field).find(records.iter().nth(place).unwrap());
        assert_eq!(find(0, "order.id").as_deref(), Ok("a-1"));
        assert_eq!(find(0, "order.count").as_deref(), Ok("3"));
        let place = |field: &str| format!("the JSON field {field}");
        assert_eq!(find(0, "id"), Err(LocateError::Missing { place: place("id") }));
        assert_eq!(find(2, "id"), Err(LocateError::Missing { place: place("id") }));
        let open = place("order.open");
        assert_eq!(find(0, "order.open"), Err(LocateError::NotText { place: open }));
        assert!(matches!(find(1, "id"), Err(LocateError::NotJson { .. })));
    }
}

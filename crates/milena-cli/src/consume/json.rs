//! A record as one line of JSON.

use std::io::{self, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use milena_client::consumer::{RecordRef, TimestampType};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    timestamp_type: Option<&'static str>,
    key: Option<Text<'a>>,
    value: Option<Text<'a>>,
    /// A list: names may repeat, and their order counts.
    headers: Vec<Header<'a>>,
}

#[derive(Serialize)]
struct Header<'a> {
    key: Text<'a>,
    value: Option<Text<'a>>,
}

/// A string where the bytes are UTF-8; else an object, so that nobody takes one for the other.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(self.0))?;
        map.end()
    }
}

pub(super) fn write(out: &mut impl Write, record: &RecordRef<'_>) -> io::Result<()> {
    let line = Line {
        topic: record.topic(),
        partition: record.partition(),
        offset: record.offset(),
        timestamp: Some(record.timestamp()).filter(|timestamp| *timestamp >= 0),
        timestamp_type: match record.timestamp_type() {
            TimestampType::None => None,
            TimestampType::CreateTime => Some("CreateTime"),
            TimestampType::LogAppendTime => Some("LogAppendTime"),
        },
        key: record.key().map(Text),
        value: record.value().map(Text),
        headers: record
            .headers()
            .map(|header| Header {
                key: Text(header.key),
                value: header.value.map(Text),
            })
            .collect(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

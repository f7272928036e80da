//! Records as lines of JSON.

use std::io::{self, Write};

use milena_app::json::Text;
use milena_client::consumer::{RecordRef, TimestampType, deserialize::RecordField};
use serde::Serialize;

use super::decode::{Decoding, FieldValue};

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    timestamp_type: Option<&'static str>,
    key: Option<FieldValue<'a>>,
    value: Option<FieldValue<'a>>,
    /// A list: keys may repeat, and their order counts.
    headers: Vec<Header<'a>>,
}

#[derive(Serialize)]
struct Header<'a> {
    key: Text<'a>,
    value: Option<Text<'a>>,
}

pub(super) fn write(out: &mut impl Write, record: &RecordRef<'_>, decoding: Decoding) -> io::Result<()> {
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
        key: decoding.to_json(record, RecordField::Key)?,
        value: decoding.to_json(record, RecordField::Value)?,
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

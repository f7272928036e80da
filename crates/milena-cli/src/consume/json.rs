//! A record as one line of JSON.

use std::io::{self, Write};

use milena_app::json::Text;
use milena_client::consumer::{RecordRef, TimestampType};
use serde::Serialize;

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

//! The records of `Peer.java`: the number determines the content.

use milena_client::consumer::{RecordRef, TimestampType};

/// The content of a record, without offset and timestamp.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<(String, Option<String>)>,
}

pub fn content(number: usize) -> Content {
    let headers = (0..number % 4).map(|header| {
        let value = (header != 2).then(|| format!("{number}/{header}"));
        ("header".to_owned(), value)
    });
    Content {
        key: (!number.is_multiple_of(3)).then(|| format!("key {}", number % 7)),
        value: (!number.is_multiple_of(5)).then(|| format!("value {number} {}", "x".repeat(number % 50))),
        headers: headers.collect(),
    }
}

pub fn timestamp(number: usize) -> i64 {
    1_600_000_000_000 + 1000 * i64::try_from(number).unwrap()
}

pub fn content_of(record: RecordRef<'_>) -> Content {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let headers = record
        .headers()
        .map(|header| (text(header.key), header.value.map(text)));
    Content {
        key: record.key().map(text),
        value: record.value().map(text),
        headers: headers.collect(),
    }
}

/// Checks the whole record, for a topic where record `n` has offset `n`.
pub fn assert_is(record: RecordRef<'_>, number: usize) {
    assert_eq!(record.offset(), i64::try_from(number).unwrap());
    assert_eq!(content_of(record), content(number), "record {number}");
    assert_eq!(record.timestamp(), timestamp(number));
    assert_eq!(record.timestamp_type(), TimestampType::CreateTime);
}

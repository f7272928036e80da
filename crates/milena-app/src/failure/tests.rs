//! Tests of failure headers in all schemes.

use milena_client::consumer::Headers;

use super::*;

fn failure_record() -> FailureRecord {
    FailureRecord {
        origin: Origin {
            topic: "orders".to_owned(),
            partition: 7,
            offset: 4_711,
            timestamp: 1_782_892_800_123,
        },
        failure: Failure {
            exception: "demo::NoStock".to_owned(),
            reason: "no stock".to_owned(),
            stack: Some("no stock\ncaused by: a strike".to_owned()),
        },
        attempts: 5,
        failed_at_ms: Some(1_782_892_900_000),
        first_failed_at_ms: Some(1_782_892_800_500),
        group: Some("billing".to_owned()),
        instance: Some("billing-1".to_owned()),
        due_at_ms: Some(1_782_892_960_000),
        returns: 2,
    }
}

/// Returns the headers as part of a record, the only form that can be read.
fn as_record(written: &[(bytes::Bytes, Option<bytes::Bytes>)]) -> milena_client::consumer::ConsumerRecords {
    let headers: Vec<_> = written
        .iter()
        .map(|(key, value)| (key.to_vec(), value.clone()))
        .collect();
    crate::testing::record_with_headers(&headers)
}

#[test]
fn every_scheme_is_read_as_it_was_written() {
    for scheme in Scheme::ALL {
        let written = write(&failure_record(), &[scheme], Headers::default());
        let records = as_record(&written);
        let record = records.iter().next().unwrap();
        let found = read(record.headers()).unwrap();
        assert_eq!(found.origin.topic, "orders", "{scheme}");
        assert_eq!((found.origin.partition, found.origin.offset), (7, 4_711), "{scheme}");
        assert_eq!(found.failure.exception, "demo::NoStock", "{scheme}");
        assert_eq!(found.failure.reason, "no stock", "{scheme}");
        assert_eq!(found.attempts, 5, "{scheme}");
        assert_eq!(found.due_at_ms, failure_record().due_at_ms, "{scheme}");
    }
    let written = write(&failure_record(), &[Scheme::Milena], Headers::default());
    let records = as_record(&written);
    assert_eq!(read(records.iter().next().unwrap().headers()), Some(failure_record()));
}

#[test]
fn every_scheme_keeps_the_records_own_timestamp() {
    for scheme in Scheme::ALL {
        let written = write(&failure_record(), &[scheme], Headers::default());
        let records = as_record(&written);
        let found = read(records.iter().next().unwrap().headers()).unwrap();
        assert_eq!(found.origin.timestamp, failure_record().origin.timestamp, "{scheme}");
    }
}

#[test]
fn bare_names_are_read() {
    let bare = [
        ("original_topic", "orders"),
        ("original_partition", "7"),
        ("original_offset", "4711"),
        ("failure_reason", "no stock"),
        ("retry_count", "3"),
        ("failed_at", "2026-07-01T08:01:40Z"),
    ];
    let found = read_of(&bare);
    assert_eq!(
        (&*found.origin.topic, found.origin.partition, found.origin.offset),
        ("orders", 7, 4_711)
    );
    assert_eq!((&*found.failure.reason, found.attempts), ("no stock", 3));
    assert_eq!(found.failed_at_ms, Some(1_782_892_900_000));
    let short = [
        ("X-Original-Topic", "orders"),
        ("X-Original-Partition", "7"),
        ("X-Original-Offset", "4711"),
        ("X-Error", "no stock"),
    ];
    assert_eq!(read_of(&short).failure.reason, "no stock");
}

fn read_of(headers: &[(&'static str, &'static str)]) -> FailureRecord {
    let written: Vec<_> = headers
        .iter()
        .map(|(name, value)| (bytes::Bytes::from(*name), Some(bytes::Bytes::from(*value))))
        .collect();
    let records = as_record(&written);
    read(records.iter().next().unwrap().headers()).unwrap()
}

#[test]
fn names_and_forms_are_those_that_others_know() {
    let written = write(
        &failure_record(),
        &[Scheme::Spring, Scheme::Connect, Scheme::X],
        Headers::default(),
    );
    let value = |name: &str| {
        let mut found = written.iter().filter(|(key, _)| key == name.as_bytes());
        let value = found.next().and_then(|(_, value)| value.clone()).unwrap();
        assert_eq!(found.next(), None, "{name} twice");
        value
    };
    assert_eq!(value("kafka_dlt-original-partition"), 7_i32.to_be_bytes().as_slice());
    assert_eq!(value("kafka_dlt-original-offset"), 4_711_i64.to_be_bytes().as_slice());
    assert_eq!(value("kafka_dlt-original-consumer-group"), "billing");
    assert_eq!(value("__connect.errors.offset"), "4711");
    assert_eq!(value("__connect.errors.exception.class.name"), "demo::NoStock");
    assert_eq!(value("X-Original-Timestamp"), "1782892800123");
    assert_eq!(value("X-Error-Timestamp"), "2026-07-01T08:01:40.000Z");
    assert_eq!(value("X-Retry-Count"), "5");
}

#[test]
fn a_second_letter_replaces_the_first_and_keeps_the_rest() {
    let own = (bytes::Bytes::from("trace"), Some(bytes::Bytes::from("1")));
    let mut first = write(&failure_record(), &[Scheme::Milena], Headers::default());
    first.insert(0, own.clone());
    let records = as_record(&first);
    let second = FailureRecord {
        attempts: 6,
        due_at_ms: None,
        ..failure_record()
    };
    let written = write(&second, &[Scheme::Milena], records.iter().next().unwrap().headers());
    assert_eq!(written.first(), Some(&own));
    let records = as_record(&written);
    assert_eq!(read(records.iter().next().unwrap().headers()), Some(second));
    assert_eq!(written.len(), first.len() - 1, "only the due time has gone");
}

#[test]
fn long_texts_are_cut_where_a_character_ends() {
    let mut failure_record = failure_record();
    failure_record.failure.reason = "é".repeat(1000);
    let written = write(&failure_record, &[Scheme::Milena], Headers::default());
    let reason = written.iter().find(|(key, _)| key == "dlq.failure.reason").unwrap();
    let reason = String::from_utf8(reason.1.clone().unwrap().to_vec()).unwrap();
    assert_eq!(reason, "é".repeat(512));
    assert_eq!(cut("aé", 2), "a");
}

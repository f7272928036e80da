//! Writes failure headers.

use bytes::Bytes;
use milena_client::consumer::Headers;

use super::{
    DUE_AT, FIRST_FAILED_AT, FailureRecord, ORIGINAL_TIMESTAMP, REASON_BYTES_MAX, RETRY_COUNT, RETURNS,
    STACK_BYTES_MAX, Scheme, cut, date,
    headers::{Numbers, is_ours, names},
};

type HeaderList = Vec<(Bytes, Option<Bytes>)>;

/// Returns the headers of the original record, followed by the failure headers. Failure headers of an earlier hop are
/// replaced, so that they do not accumulate.
pub(crate) fn write(failure_record: &FailureRecord, schemes: &[Scheme], headers: Headers<'_>) -> HeaderList {
    // Without a scheme the runtime could not read its own retry topics.
    let schemes = if schemes.is_empty() { &[Scheme::Milena] } else { schemes };
    let kept = headers.filter(|header| !is_ours(header.key, schemes));
    let mut written: HeaderList = kept
        .map(|header| {
            let value = header.value.map(Bytes::copy_from_slice);
            (Bytes::copy_from_slice(header.key), value)
        })
        .collect();
    for scheme in schemes {
        write_scheme(failure_record, *scheme, &mut written);
    }
    if !schemes.contains(&Scheme::X) {
        put(&mut written, RETRY_COUNT, failure_record.attempts.to_string());
    }
    if schemes.iter().all(|scheme| names(*scheme).timestamp.is_empty()) {
        put(
            &mut written,
            ORIGINAL_TIMESTAMP,
            failure_record.origin.timestamp.to_string(),
        );
    }
    if let Some(due_at_ms) = failure_record.due_at_ms {
        put(&mut written, DUE_AT, due_at_ms.to_string());
    }
    if let Some(first_failed_at_ms) = failure_record.first_failed_at_ms {
        put(&mut written, FIRST_FAILED_AT, first_failed_at_ms.to_string());
    }
    if failure_record.returns > 0 {
        put(&mut written, RETURNS, failure_record.returns.to_string());
    }
    written
}

fn write_scheme(failure_record: &FailureRecord, scheme: Scheme, written: &mut HeaderList) {
    let names = names(scheme);
    let mut text = |name: &'static str, value: &str| put(written, name, value.to_owned());
    text(names.topic, &failure_record.origin.topic);
    text(names.exception, &failure_record.failure.exception);
    text(names.reason, cut(&failure_record.failure.reason, REASON_BYTES_MAX));
    if let Some(stack) = &failure_record.failure.stack {
        text(names.stack, cut(stack, STACK_BYTES_MAX));
    }
    if let Some(failed_at_ms) = failure_record.failed_at_ms {
        text(names.failed_at, &date::rfc3339(failed_at_ms));
    }
    if let Some(group) = &failure_record.group {
        text(names.group, group);
    }
    if let Some(instance) = &failure_record.instance {
        text(names.instance, instance);
    }
    match names.numbers {
        Numbers::Text => {
            text(names.partition, &failure_record.origin.partition.to_string());
            text(names.offset, &failure_record.origin.offset.to_string());
            text(names.timestamp, &failure_record.origin.timestamp.to_string());
            text(names.attempts, &failure_record.attempts.to_string());
        }
        Numbers::Bytes => {
            put(
                written,
                names.partition,
                failure_record.origin.partition.to_be_bytes().to_vec(),
            );
            put(
                written,
                names.offset,
                failure_record.origin.offset.to_be_bytes().to_vec(),
            );
            put(
                written,
                names.timestamp,
                failure_record.origin.timestamp.to_be_bytes().to_vec(),
            );
            put(written, names.attempts, failure_record.attempts.to_be_bytes().to_vec());
        }
    }
}

fn put(written: &mut HeaderList, name: &'static str, value: impl Into<Bytes>) {
    if !name.is_empty() {
        written.push((Bytes::from_static(name.as_bytes()), Some(value.into())));
    }
}

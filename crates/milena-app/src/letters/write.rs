//! The story of a letter as headers.

use bytes::Bytes;
use milena_client::consumer::Headers;

use super::{
    DUE_AT, FIRST_FAILED_AT, Letter, ORIGINAL_TIMESTAMP, REASON_BYTES_MAX, RETRY_COUNT, RETURNS, STACK_BYTES_MAX,
    Scheme, cut, date,
    headers::{Numbers, is_ours, names},
};

type Written = Vec<(Bytes, Option<Bytes>)>;

/// The headers of the record as they are, and the story of the letter behind them. What an earlier letter said is
/// replaced, so that headers do not pile up with each hop.
pub(crate) fn write(letter: &Letter, schemes: &[Scheme], headers: Headers<'_>) -> Written {
    // Without any a retry topic could not be read.
    let schemes = if schemes.is_empty() { &[Scheme::Milena] } else { schemes };
    let kept = headers.filter(|header| !is_ours(header.key, schemes));
    let mut written: Written = kept
        .map(|header| {
            let value = header.value.map(Bytes::copy_from_slice);
            (Bytes::copy_from_slice(header.key), value)
        })
        .collect();
    for scheme in schemes {
        write_scheme(letter, *scheme, &mut written);
    }
    if !schemes.contains(&Scheme::X) {
        put(&mut written, RETRY_COUNT, letter.attempts.to_string());
    }
    if schemes.iter().all(|scheme| names(*scheme).timestamp.is_empty()) {
        put(&mut written, ORIGINAL_TIMESTAMP, letter.origin.timestamp.to_string());
    }
    if let Some(due_at_ms) = letter.due_at_ms {
        put(&mut written, DUE_AT, due_at_ms.to_string());
    }
    if let Some(first_failed_at_ms) = letter.first_failed_at_ms {
        put(&mut written, FIRST_FAILED_AT, first_failed_at_ms.to_string());
    }
    if letter.returns > 0 {
        put(&mut written, RETURNS, letter.returns.to_string());
    }
    written
}

fn write_scheme(letter: &Letter, scheme: Scheme, written: &mut Written) {
    let names = names(scheme);
    let mut text = |name: &'static str, value: &str| put(written, name, value.to_owned());
    text(names.topic, &letter.origin.topic);
    text(names.exception, &letter.failure.exception);
    text(names.reason, cut(&letter.failure.reason, REASON_BYTES_MAX));
    if let Some(stack) = &letter.failure.stack {
        text(names.stack, cut(stack, STACK_BYTES_MAX));
    }
    if let Some(failed_at_ms) = letter.failed_at_ms {
        text(names.failed_at, &date::rfc3339(failed_at_ms));
    }
    if let Some(group) = &letter.group {
        text(names.group, group);
    }
    if let Some(instance) = &letter.instance {
        text(names.instance, instance);
    }
    match names.numbers {
        Numbers::Text => {
            text(names.partition, &letter.origin.partition.to_string());
            text(names.offset, &letter.origin.offset.to_string());
            text(names.timestamp, &letter.origin.timestamp.to_string());
            text(names.attempts, &letter.attempts.to_string());
        }
        Numbers::Bytes => {
            put(written, names.partition, letter.origin.partition.to_be_bytes().to_vec());
            put(written, names.offset, letter.origin.offset.to_be_bytes().to_vec());
            put(written, names.timestamp, letter.origin.timestamp.to_be_bytes().to_vec());
            put(written, names.attempts, letter.attempts.to_be_bytes().to_vec());
        }
    }
}

fn put(written: &mut Written, name: &'static str, value: impl Into<Bytes>) {
    if !name.is_empty() {
        written.push((Bytes::from_static(name.as_bytes()), Some(value.into())));
    }
}

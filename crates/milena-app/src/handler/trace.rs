//! W3C trace context of a record, and the span of a handler call.
//!
//! Records that the runtime writes carry the trace headers of their source unchanged. The runtime exports no spans, so
//! a span id of its own would name a parent that no collector knows. A handler that exports spans sets the headers of
//! its output by itself.

use std::str;

use milena_client::consumer::Headers;
use tracing::{Span, field::Empty};

use super::Cx;

pub(crate) const TRACEPARENT: &str = "traceparent";
pub(crate) const TRACESTATE: &str = "tracestate";

/// Length of version 00; later versions start the same way and may be longer.
const PARENT_BYTES: usize = 55;
/// Longer headers are ignored; the specification requires no more.
const HEADER_BYTES_MAX: usize = 512;

/// Trace context of a record, from its headers `traceparent` and `tracestate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// Reads the headers; the last one of a name wins. Returns `None` if they are missing or malformed.
    pub fn read(headers: Headers<'_>) -> Option<Self> {
        let (mut parent, mut state) = (None, None);
        for header in headers {
            if header.key == TRACEPARENT.as_bytes() {
                parent = header.value;
            } else if header.key == TRACESTATE.as_bytes() {
                state = header.value;
            }
        }
        Some(Self {
            parent: valid_parent(parent?)?.to_owned(),
            state: state.and_then(valid_state).map(ToOwned::to_owned),
        })
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        self.parent.get(3..35).unwrap_or_default()
    }

    /// Span that wrote the record: 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        self.parent.get(36..52).unwrap_or_default()
    }

    /// Whether the writer of the record may have sampled its span.
    pub fn is_sampled(&self) -> bool {
        let flags = self.parent.get(53..55).unwrap_or_default();
        u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The header, unchanged.
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    /// Vendor-specific part of the trace context.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// Headers are untrusted input.
fn valid_parent(header: &[u8]) -> Option<&str> {
    let is_printable = header.iter().all(u8::is_ascii_graphic);
    let text = str::from_utf8(header).ok().filter(|_| is_printable)?;
    let is_hex = |digits: &str| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_id = |digits: &str| is_hex(digits) && digits.bytes().any(|byte| byte != b'0');
    let (version, trace_id, span_id) = (text.get(..2)?, text.get(3..35)?, text.get(36..52)?);
    let flags = text.get(53..PARENT_BYTES)?;
    let has_dashes = [2, 35, 52].iter().all(|at| header.get(*at) == Some(&b'-'));
    let has_more = header.len() > PARENT_BYTES;
    let is_long = has_more && (version == "00" || header.get(PARENT_BYTES) != Some(&b'-'));
    let is_known = is_hex(version) && version != "ff" && !is_long && header.len() <= HEADER_BYTES_MAX;
    (is_known && has_dashes && is_id(trace_id) && is_id(span_id) && is_hex(flags)).then_some(text)
}

fn valid_state(header: &[u8]) -> Option<&str> {
    let is_printable = header.iter().all(|byte| (0x20..0x7f).contains(byte));
    let fits = !header.is_empty() && header.len() <= HEADER_BYTES_MAX;
    str::from_utf8(header).ok().filter(|_| is_printable && fits)
}

/// Span of a call with `records` records, of which `first` is the first. Nearly free without a subscriber.
pub(crate) fn call_span(handler: &str, first: &Cx, records: usize) -> Span {
    let span = tracing::info_span!(
        target: "milena_app::call",
        "call",
        handler,
        topic = first.record.topic(),
        partition = first.record.partition(),
        offset = first.record.offset(),
        attempt = first.attempt,
        records = Empty,
        trace_id = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if records > 1 {
        span.record("records", records);
    } else if let Some(trace) = first.trace() {
        span.record("trace_id", trace.trace_id());
    }
    span
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testing::record_with_headers;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&str, &[u8])]) -> Option<TraceContext> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), Some(Bytes::copy_from_slice(value))))
            .collect();
        let records = record_with_headers(&headers);
        TraceContext::read(records.iter().next().unwrap().headers())
    }

    #[test]
    fn a_trace_is_read_from_its_headers() {
        let state = ("tracestate", &b"congo=t61rcWkgMzE"[..]);
        let trace = read(&[("traceparent", PARENT.as_bytes()), state]).unwrap();
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.span_id(), "00f067aa0ba902b7");
        assert!(trace.is_sampled());
        assert_eq!(trace.traceparent(), PARENT);
        assert_eq!(trace.tracestate(), Some("congo=t61rcWkgMzE"));
        // The last header wins, and later versions may be longer.
        let later = PARENT.replace("00-4", "cc-4") + "-more";
        let trace = read(&[("traceparent", b"nonsense"), ("traceparent", later.as_bytes())]).unwrap();
        assert_eq!((trace.traceparent(), trace.tracestate()), (later.as_str(), None));
        assert!(
            !read(&[("traceparent", PARENT.replace("-01", "-00").as_bytes())])
                .unwrap()
                .is_sampled()
        );
    }

    #[test]
    fn headers_that_make_no_sense_are_ignored() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("tracestate", b"congo=t61rcWkgMzE")]), None);
        for parent in [
            String::new(),
            PARENT[..54].to_owned(),
            PARENT.to_owned() + "-more",
            PARENT.to_uppercase(),
            PARENT.replace("00-4", "ff-4"),
            PARENT.replace("00-4", "01-4") + "more",
            PARENT.replace("00-4", "01-4") + "-" + &"x".repeat(512),
            PARENT.replace("00-4", "01-4") + "-\r\nmore",
            PARENT.replace('-', "_"),
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            PARENT.replace("f067", "é67"),
            PARENT.replace("-01", "-0g"),
        ] {
            assert_eq!(read(&[("traceparent", parent.as_bytes())]), None, "{parent}");
        }
        for state in [&b""[..], b"\xff", b"a=\n", &[b'x'; 513]] {
            let trace = read(&[("traceparent", PARENT.as_bytes()), ("tracestate", state)]).unwrap();
            assert_eq!(trace.tracestate(), None, "{state:?}");
        }
    }
}

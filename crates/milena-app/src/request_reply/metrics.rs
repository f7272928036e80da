//! Counters of a requester.

use std::fmt::Write;

use milena_machines::request_reply::RequestCounts;

use crate::metrics::{label, write_family};

/// Numbers of a requester since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequesterCounts {
    /// Requests that wait for their replies now.
    pub pending: u64,
    /// Requests that were begun.
    pub requests: u64,
    pub replied: u64,
    pub timed_out: u64,
    /// Requests whose future was dropped, or that could not be sent.
    pub cancelled: u64,
    /// Replies to requests that had timed out or were cancelled.
    pub late: u64,
    /// Further replies to requests that had one: the service handled the request twice.
    pub duplicate: u64,
    /// Replies to other requesters of the partition, and to the predecessor of this one.
    pub foreign: u64,
    /// Records of the reply partition that belong to no request.
    pub unknown: u64,
}

impl RequesterCounts {
    pub(super) fn new(pending: usize, counts: RequestCounts) -> Self {
        Self {
            pending: pending as u64,
            requests: counts.begun,
            replied: counts.replied,
            timed_out: counts.timed_out,
            cancelled: counts.cancelled,
            late: counts.late,
            duplicate: counts.duplicate,
            foreign: counts.foreign,
            unknown: counts.unknown,
        }
    }
}

/// Writes the counters of requesters in Prometheus' text format.
pub(crate) fn write(text: &mut String, requesters: &[(String, RequesterCounts)]) {
    if requesters.is_empty() {
        return;
    }
    type Value = fn(&RequesterCounts) -> u64;
    let families: [(&str, &str, &str, Value); 9] = [
        (
            "milena_requests_pending",
            "gauge",
            "Requests that wait for a reply.",
            |counts| counts.pending,
        ),
        (
            "milena_requests_total",
            "counter",
            "Requests that were begun.",
            |counts| counts.requests,
        ),
        (
            "milena_requests_replied_total",
            "counter",
            "Requests that got a reply.",
            |counts| counts.replied,
        ),
        (
            "milena_requests_timed_out_total",
            "counter",
            "Requests that got no reply in time.",
            |counts| counts.timed_out,
        ),
        (
            "milena_requests_cancelled_total",
            "counter",
            "Requests that were cancelled or not sent.",
            |counts| counts.cancelled,
        ),
        (
            "milena_replies_late_total",
            "counter",
            "Replies after the timeout.",
            |counts| counts.late,
        ),
        (
            "milena_replies_duplicate_total",
            "counter",
            "Further replies to the same request.",
            |counts| counts.duplicate,
        ),
        (
            "milena_replies_foreign_total",
            "counter",
            "Replies to other requesters of the partition.",
            |counts| counts.foreign,
        ),
        (
            "milena_replies_unknown_total",
            "counter",
            "Records of the reply partition that belong to no request.",
            |counts| counts.unknown,
        ),
    ];
    for (name, kind, help, value) in families {
        write_family(text, name, kind, help);
        for (place, counts) in requesters {
            let _ = writeln!(text, "{name}{{replies=\"{}\"}} {}", label(place), value(counts));
        }
    }
}

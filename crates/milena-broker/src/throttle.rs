//! Clients that must pause.

use std::{fmt, time::Duration};

use milena_wire::api::ApiKey;

/// What one request has cost.
#[derive(Debug, Clone, Copy)]
pub struct Spent<'a> {
    pub api: ApiKey,
    pub client_id: Option<&'a str>,
    pub request_bytes: usize,
    /// 0 if the client wants no answer.
    pub response_bytes: usize,
}

/// Says for how long a client must pause.
///
/// It is asked once for each request, when the answer is made. The answer is sent at once and tells the client of the
/// pause; for that time nothing more is read from its connection and nothing more is sent to it (KIP-219). Nobody else
/// notices.
pub trait Throttle: fmt::Debug + Send + Sync {
    /// The pause after this request; zero for none.
    fn pause(&self, spent: &Spent<'_>) -> Duration;
}

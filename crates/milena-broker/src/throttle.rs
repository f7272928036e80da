//! The throttle: clients that must pause.

use std::{fmt, time::Duration};

use milena_wire::api::ApiKey;

/// The cost of one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestCost<'a> {
    pub api: ApiKey,
    pub client_id: Option<&'a str>,
    pub request_bytes: usize,
    /// 0 if the client expects no response.
    pub response_bytes: usize,
}

/// Decides for how long a client must pause.
///
/// It is called once for each request, when the response is encoded. The response leaves at once with the throttle time;
/// for that time nothing is read from the connection and nothing is sent to it (KIP-219). Other connections are not
/// affected.
pub trait Throttle: fmt::Debug + Send + Sync {
    /// The throttle time after this request; zero for none.
    fn throttle_time(&self, cost: &RequestCost<'_>) -> Duration;
}

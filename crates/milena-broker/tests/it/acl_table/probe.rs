//! A probe: one request of the client, and its response as text.

use std::fmt::Debug;

use milena_wire::message::{Request, Response};

use super::{Bed, admin_probes, data_probes, group_probes};

/// Sends the request of a probe, and returns the error codes of the response and the facts that matter.
pub fn run(bed: &mut Bed, probe: &str) -> String {
    let seen = data_probes::run(bed, probe);
    let seen = seen.or_else(|| group_probes::run(bed, probe));
    let seen = seen.or_else(|| admin_probes::run(bed, probe));
    seen.unwrap_or_else(|| panic!("no probe {probe}"))
}

impl Bed {
    /// The error codes of the response to a request, or `closed`.
    pub fn codes<R: Request<Response: Debug>>(&mut self, request: &R, version: i16) -> String {
        match self.respond(request, version) {
            Some(response) => codes_of(&response),
            None => "closed".to_owned(),
        }
    }

    /// The error codes, and a fact of the response.
    pub fn codes_and<R: Request<Response: Debug>>(
        &mut self,
        request: &R,
        version: i16,
        fact: impl FnOnce(&R::Response) -> String,
    ) -> String {
        match self.respond(request, version) {
            Some(response) => format!("{} {}", codes_of(&response), fact(&response)),
            None => "closed".to_owned(),
        }
    }

    /// The response to a request of the client; `None` if the broker has closed the connection.
    pub fn respond<R: Request<Response: Debug>>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        let response = self.client.try_call(request, version);
        if response.is_none() {
            self.reconnect();
        }
        response
    }
}

/// The codes in a response; `ok` if it has none.
pub fn codes_of(response: &impl Response) -> String {
    let mut codes = vec![];
    response.for_each_error(&mut |code| codes.push(code.to_string()));
    codes.sort();
    match codes.is_empty() {
        true => "ok".to_owned(),
        false => codes.join("+"),
    }
}

//! Handlers in other languages: programs with lines of JSON on stdin and stdout, or HTTP services. `milena run` runs
//! applications whose handlers are all of this kind.
//!
//! A record is one JSON object, and its outcome is another:
//!
//! ```json
//! {"id":1,"topic":"orders","partition":0,"offset":7,"timestamp":1782892800000,"key":"anna","value":"{}","headers":[["trace","t1"]],"attempt":1,"group":"billing","event_id":"orders-0-7"}
//! {"id":1}
//! {"id":1,"skip":"not for us"}
//! {"id":1,"duplicate":true}
//! {"id":1,"retry_after_ms":500}
//! {"id":1,"emit":[{"topic":"bills","key":"anna","value":"a bill"}]}
//! {"id":1,"reply":{"value":"a quote"}}
//! {"id":1,"error":"no money","intent":"retry"}
//! {"id":1,"error":"no response","intent":"dependency","dependency":"payments"}
//! ```
//!
//! Bytes that are not UTF-8 are `{"base64": …}` in both directions. The intent of an error is `retry` (the default),
//! `poison`, `dependency` or `fatal`. `docs/run.md` is the reference.
//!
//! A program that does not start and a service that cannot be reached are not failures of records: each handler has a
//! breaker of its own, which pauses its partitions meanwhile.

mod http;
mod message;
mod process;
mod program;
mod programs;
mod tls;

use std::{sync::Arc, time::Duration};

pub use http::{HttpHandler, HttpHandlerError};
pub(crate) use program::START_TIMEOUT;
pub use program::{ProgramHandler, ProgramHandlerError};
pub(crate) use programs::Programs;
pub use tls::HttpTls;

use crate::{
    App, AppFile,
    file::HandlerFile,
    handler::{BoxError, Cx},
    policy::{Breaker, Policy},
};

/// A handler of a file is invalid, or its program does not start.
#[derive(Debug, thiserror::Error)]
#[error("{place} ({topic}): {problem}")]
pub struct OutsideError {
    /// Path of the handler in the file, such as `handlers[0]`.
    pub place: String,
    pub topic: String,
    pub problem: BoxError,
}

/// Returns the application of a file in which each handler is a `command` or an `http` service.
///
/// Programs start and end with the application. A program gets one record at a time, unless the file sets
/// `concurrency`.
pub fn app(file: &AppFile) -> Result<App, OutsideError> {
    let mut app = file.app();
    for (index, handler) in file.handlers.iter().enumerate() {
        let place = format!("handlers[{index}]");
        let failed = |problem: BoxError| OutsideError {
            place: place.clone(),
            topic: handler.topic.clone(),
            problem,
        };
        app = match (&handler.command, &handler.http) {
            (Some(command), None) => on_program(app, handler, command, &place).map_err(failed)?,
            (None, Some(address)) => on_service(app, handler, address, &place).map_err(failed)?,
            _ => return Err(failed("set either command or http".into())),
        };
    }
    Ok(app)
}

fn on_program(mut app: App, handler: &HandlerFile, command: &[String], place: &str) -> Result<App, BoxError> {
    let name = command.join(" ");
    let mut program = ProgramHandler::new(command)?
        .timeout(handler.policy.timeout, place)
        .start_timeout(handler.start_timeout);
    if handler.pause_when_down {
        app = app.around_handler(&name);
        program = program.breaker(&name);
    }
    let program = Arc::new(program);
    app.programs.push(place, &handler.topic, Arc::clone(&program));
    let breaker = handler.pause_when_down.then_some(name);
    Ok(app.on(
        &handler.topic,
        move |cx: Cx| Arc::clone(&program).handle(cx),
        |policy| {
            let mut policy = timed_by_handler(policy, breaker);
            // A program handles one line after the other unless its author says otherwise. If it got more, their
            // timeouts would run while they wait, and all of them would fail with one that crashes it.
            policy.concurrency = policy.concurrency.or(Some(1));
            policy
        },
    ))
}

fn on_service(mut app: App, handler: &HandlerFile, address: &str, place: &str) -> Result<App, BoxError> {
    let service = HttpHandler::with_tls(address, &handler.http_tls)?;
    let mut service = service.timeout(handler.policy.timeout, place);
    if handler.pause_when_down {
        app = app.around_handler(address);
        service = service.breaker(address);
    }
    if handler.http_replies {
        service = service.reply_with_body();
    }
    let service = Arc::new(service);
    let breaker = handler.pause_when_down.then(|| address.to_owned());
    Ok(app.on(
        &handler.topic,
        move |cx: Cx| Arc::clone(&service).handle(cx),
        |policy| timed_by_handler(policy, breaker),
    ))
}

/// The handler enforces its timeouts by itself, because only it can kill a program that does not reply.
fn timed_by_handler(policy: Policy, breaker: Option<String>) -> Policy {
    let policy = policy.timeout(None);
    match breaker {
        Some(name) => policy.breaker(name),
        None => policy,
    }
}

impl App {
    /// Adds the breaker around a handler, unless one of this name is declared.
    fn around_handler(mut self, name: &str) -> Self {
        self.breakers
            .entry(name.to_owned())
            .or_insert_with(Breaker::around_handler);
        self
    }
}

/// Formats a duration for messages, as in `5 s` and `250 ms`.
fn duration_text(time: Duration) -> String {
    match time.as_millis() {
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

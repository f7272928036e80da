//! Handlers that are not written in Rust: a program that speaks lines of JSON, or a service that speaks HTTP. `milena run`
//! runs applications whose file has nothing else.
//!
//! A record goes out as one object, and what became of it comes back as one:
//!
//! ```json
//! {"id":1,"topic":"orders","partition":0,"offset":7,"timestamp":1782892800000,"key":"anna","value":"{}","headers":[["trace","t1"]],"attempt":1,"group":"billing","event_id":"orders-0-7"}
//! {"id":1}
//! {"id":1,"skip":"not for us"}
//! {"id":1,"duplicate":true}
//! {"id":1,"retry_after_ms":500}
//! {"id":1,"emit":[{"topic":"bills","key":"anna","value":"a bill"}]}
//! {"id":1,"error":"no money","intent":"retry"}
//! {"id":1,"error":"no answer","intent":"dependency","dependency":"payments"}
//! ```
//!
//! Bytes that are no text are `{"base64": …}` in both directions. The intent of an error is `retry` unless it says
//! `poison`, `dependency` or `fatal`. `docs/run.md` has the whole reference.
//!
//! A program that does not start and a service that cannot be reached are not failures of records: each handler has a
//! breaker of its own, which pauses its partitions meanwhile.

mod connection;
mod http;
mod message;
mod process;
mod program;
mod programs;
#[cfg(feature = "tls")]
mod tls;

use std::{sync::Arc, time::Duration};

pub use http::{HttpHandler, HttpHandlerError};
pub(crate) use program::START_TIMEOUT;
pub use program::{ProgramHandler, ProgramHandlerError};
pub(crate) use programs::Programs;

use crate::{
    App, AppFile,
    file::HandlerFile,
    handler::{BoxError, Cx},
    policy::{Breaker, Policy},
};

/// A handler of a file that cannot be made, or whose program does not start.
#[derive(Debug, thiserror::Error)]
#[error("{place} ({topic}): {problem}")]
pub struct OutsideError {
    /// The place of the handler in the file, such as `handlers[0]`.
    pub place: String,
    pub topic: String,
    pub problem: BoxError,
}

/// The application of a file in which each handler is a `command` or a service at `http`.
///
/// Programs start with the application and end with it. A handler tried through a program gets one record at a time,
/// unless the file has a `concurrency` for it.
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
            // A program reads one line after the other unless its author says otherwise. If it got more, their times
            // would run while they wait, and all of them would fail with one that ends it.
            policy.concurrency = policy.concurrency.or(Some(1));
            policy
        },
    ))
}

fn on_service(mut app: App, handler: &HandlerFile, address: &str, place: &str) -> Result<App, BoxError> {
    let service = HttpHandler::with_authority(address, handler.http_ca.as_deref())?;
    let mut service = service.timeout(handler.policy.timeout, place);
    if handler.pause_when_down {
        app = app.around_handler(address);
        service = service.breaker(address);
    }
    let service = Arc::new(service);
    let breaker = handler.pause_when_down.then(|| address.to_owned());
    Ok(app.on(
        &handler.topic,
        move |cx: Cx| Arc::clone(&service).handle(cx),
        |policy| timed_by_handler(policy, breaker),
    ))
}

/// The handler keeps the time of its calls itself: what it must do about one that takes too long, nothing else can.
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

/// A time as messages have it: `5 s`, `250 ms`.
fn duration_text(time: Duration) -> String {
    match time.as_millis() {
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

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
//! `poison`, `dependency` or `fatal`.

mod connection;
mod http;
mod message;
mod program;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;

pub use http::{HttpHandler, HttpHandlerError};
pub use program::{ProgramHandler, ProgramHandlerError};

use crate::{
    App, AppFile,
    handler::{BoxError, Cx},
};

/// What is wrong with a handler that is not written in Rust.
#[derive(Debug, thiserror::Error)]
#[error("the handler of {topic}: {problem}")]
pub struct OutsideError {
    pub topic: String,
    pub problem: BoxError,
}

/// The application of a file in which each handler is a `command` or a service at `http`.
pub fn app(file: &AppFile) -> Result<App, OutsideError> {
    let mut app = file.app();
    for handler in &file.handlers {
        let failed = |problem: BoxError| OutsideError {
            topic: handler.topic.clone(),
            problem,
        };
        app = match (&handler.command, &handler.http) {
            (Some(command), None) => {
                let program = ProgramHandler::new(command).map_err(|error| failed(error.into()))?;
                let program = Arc::new(program);
                app.on(
                    &handler.topic,
                    move |cx: Cx| program.clone().handle(cx),
                    |policy| policy,
                )
            }
            (None, Some(address)) => {
                let service = HttpHandler::with_authority(address, handler.http_ca.as_deref());
                let service = service.map_err(|error| failed(error.into()))?;
                let service = Arc::new(service);
                app.on(
                    &handler.topic,
                    move |cx: Cx| service.clone().handle(cx),
                    |policy| policy,
                )
            }
            _ => return Err(failed("set either command or http".into())),
        };
    }
    Ok(app)
}

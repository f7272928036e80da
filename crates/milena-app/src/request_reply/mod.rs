//! Request-reply over topics.
//!
//! A [`Requester`] sends requests and waits for their replies. It reads one partition of a reply topic without a
//! group. A handler answers with [`Done::reply`](crate::handler::Done::reply); the runtime writes the reply to the topic
//! and partition that the request names. `docs/request-reply.md` is the reference.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use milena_app::request_reply::{Requester, RequesterConfig};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let requester = Requester::start(RequesterConfig::new("127.0.0.1:9092")).await?;
//! let request = requester.request("quotes.requests", "MSFT", "{\"shares\":10}");
//! let reply = request.timeout(Duration::from_secs(2)).send().await?;
//! println!("{:?}", reply.value());
//! # Ok(())
//! # }
//! ```

mod address;
mod app;
mod config;
mod driver;
mod error;
mod headers;
mod locate;
mod metrics;
mod out_reply;
mod pending;
mod reply;
mod request;
mod requester;
mod rules;

pub(crate) use address::deadline_ms;
pub use address::{AddressError, ReplyAddress};
pub use config::{RequesterConfig, WhenPendingFull};
pub use error::{RequestError, RequesterError};
pub use headers::{
    CORRELATION_ID, REPLY_DEADLINE, REPLY_ERROR, REPLY_ERROR_CLASS, REPLY_PARTITION, REPLY_TOPIC,
    SPRING_CORRELATION_ID, SPRING_REPLY_PARTITION, SPRING_REPLY_TOPIC,
};
pub use metrics::RequesterCounts;
pub(crate) use metrics::write as write_metrics;
pub use out_reply::OutReply;
pub use pending::PendingReply;
pub use reply::Reply;
pub use request::Request;
pub use requester::Requester;
pub use rules::Replies;
pub(crate) use rules::{ReplyRules, SeenTopic};

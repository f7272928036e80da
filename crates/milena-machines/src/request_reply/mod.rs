//! Request-reply over topics: the pending requests of a requester, and the decisions of the side that answers.
//!
//! A requester has a *reply partition*, which it reads without a group. It learns the end of that partition before it
//! sends its first request; a position that is determined later would skip replies that are faster. Each request has
//! a [`CorrelationId`] and a deadline. Nothing is sent twice: a request that gets no reply times out.
//!
//! Several requesters may share a reply partition, and the log keeps replies to processes that have ended. The epoch in
//! the correlation id tells these apart from late, duplicate and unknown replies.

mod answer;
mod correlation;
mod missing_topics;
mod requests;

pub use answer::{AnswerConfig, give_up_ms, is_expired};
pub use correlation::CorrelationId;
pub use missing_topics::MissingTopics;
pub use requests::{BeginError, ReplyVerdict, RequestCounts, Requests, RequestsConfig};

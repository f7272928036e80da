//! Applications on an in-process broker.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod at_most_once;
mod delivery;
mod endpoint;
mod ends;
mod failures;
mod handlers;
mod https;
mod key_order;
mod log;
mod logging;
mod outside;
mod reading_again;
mod replays;
mod request_reply;
mod retention;
mod returns;
mod rig;
mod scopes;
mod shared;
mod times;
mod topics;
mod traces;

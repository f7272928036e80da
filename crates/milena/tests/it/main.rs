//! The examples, as their readers would run them.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

#[path = "../../examples/consume.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod consume;
mod embedded;
mod examples;
#[path = "../../examples/manual_assignment.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod manual_assignment;

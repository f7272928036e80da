//! The examples, as their readers would run them.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod apps;
#[path = "../../examples/bulk_and_slow.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod bulk_and_slow;
#[path = "../../examples/consume.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod consume;
#[path = "../../examples/country_counter.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod country_counter;
mod embedded;
#[path = "../../examples/enrich.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod enrich;
mod examples;
#[path = "../../examples/mail_storm.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod mail_storm;
#[path = "../../examples/manual_assignment.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod manual_assignment;
#[path = "../../examples/order_service.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod order_service;
#[path = "../../examples/tenants.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod tenants;

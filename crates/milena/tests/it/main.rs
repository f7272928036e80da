//! The examples, as their readers would run them.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod apps;
#[path = "../../examples/back_fill.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod back_fill;
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
#[path = "../../examples/four_groups.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod four_groups;
#[path = "../../examples/invoices.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod invoices;
#[path = "../../examples/mail_storm.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod mail_storm;
#[path = "../../examples/manual_assignment.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod manual_assignment;
#[path = "../../examples/order_service.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod order_service;
#[path = "../../examples/partner_api.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod partner_api;
mod patterns;
#[path = "../../examples/poison.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod poison;
#[path = "../../examples/readings.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod readings;
#[path = "../../examples/tenants.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod tenants;

//! Tests of the examples.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]
#![allow(clippy::duplicate_mod, reason = "each example that needs the fleet brings it along")]

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
mod docs;
#[path = "../../examples/double_invoices.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod double_invoices;
mod effects;
mod embedded;
#[path = "../../examples/enrich.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod enrich;
mod examples;
#[path = "../../examples/first_app.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod first_app;
#[path = "../../examples/four_groups.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod four_groups;
mod groups;
#[path = "../../examples/hot_tenant.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod hot_tenant;
#[path = "../../examples/invoices.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod invoices;
#[path = "../../examples/mail_storm.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod mail_storm;
#[path = "../../examples/manual_assignment.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod manual_assignment;
#[path = "../../examples/order_saga.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod order_saga;
mod order_saga_services;
#[path = "../../examples/order_service.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod order_service;
#[path = "../../examples/orders.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod orders;
#[path = "../../examples/own_assignor.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod own_assignor;
#[path = "../../examples/partner_api.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod partner_api;
mod patterns;
#[path = "../../examples/poison.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod poison;
#[path = "../../examples/quotes.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod quotes;
#[path = "../../examples/range_or_round_robin.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod range_or_round_robin;
#[path = "../../examples/readings.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod readings;
#[path = "../../examples/rolling_restart.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod rolling_restart;
#[path = "../../examples/sales_view.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod sales_view;
#[path = "../../examples/slow_reader.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod slow_reader;
#[path = "../../examples/stale_commit.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod stale_commit;
#[path = "../../examples/static_ids.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod static_ids;
#[path = "../../examples/tenants.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod tenants;

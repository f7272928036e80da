//! The client against Kafka's facts and real brokers.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod admin;
mod admin_config;
mod assignors;
mod broker;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, unreachable_pub, reason = "the broker's tests need more of it")]
mod client;
mod config;
mod config_facts;
mod config_sources;
mod consuming;
mod deserialize;
mod events;
mod exactly_once;
mod few_keys;
mod interceptors;
mod on_the_runtime;
mod partitioners;
mod producer_config;
mod producer_config_facts;
mod producing;
mod reachability;
mod rebalancing;
#[path = "../../../milena-broker/tests/it/running.rs"]
#[allow(dead_code, unreachable_pub, reason = "the broker's tests need more of it")]
mod running;
mod security;
mod security_config;
mod spans;
#[path = "../../../milena-broker/tests/it/tls_client.rs"]
#[allow(dead_code, unreachable_pub, reason = "the broker's tests need more of it")]
mod tls_client;
mod topics;

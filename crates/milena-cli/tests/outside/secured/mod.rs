//! Clients of others that log in to our broker: every mechanism, with and without TLS, and with certificates.
//!
//! `broker.rs` starts a secured broker and its users, `login.rs` has the ways to log in, `clients.rs` lets each client use
//! all of them, and `tools.rs` manages ACLs, users and quotas with Kafka's tools. The scripts also run against an Apache
//! Kafka that was started with `cargo xtask kafka up --secured --acls`.

mod broker;
mod clients;
mod login;
mod tools;

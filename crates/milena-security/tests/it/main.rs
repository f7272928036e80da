//! Tests through the public interface.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

#[cfg(feature = "dev-certs")]
mod dev_certs;
mod support;
mod tls;

//! Tests through the public interface.

#[cfg(feature = "dev-certs")]
mod dev_certs;
mod support;
mod tls;

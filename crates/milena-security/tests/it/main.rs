//! Tests through the public interface.

mod support;
mod tls;

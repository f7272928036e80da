//! Connections to brokers.

//! The client against real brokers.

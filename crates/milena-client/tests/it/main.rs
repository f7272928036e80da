//! The client against Kafka's facts and real brokers.

mod config;
mod config_facts;
mod config_sources;
mod deserialize;

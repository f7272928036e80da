//! The tests of the crate's public face, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod acl_table;
mod acls;
mod admin;
mod client;
mod cluster_apis;
mod config_alter;
mod config_broker;
mod config_describe;
mod config_topic;
mod coordinators;
mod damage;
mod data_path;
mod failing_disk;
mod fetch_sessions;
mod foreign_suites;
mod kafkas_facts;
mod limits;
mod listeners;
mod logins;
mod metadata;
mod metrics;
mod paused;
mod quotas;
mod running;
mod scram_users;
mod serving;
mod settings;
mod telemetry;
mod throttle;
mod tls;
mod tls_client;
mod tokens;
mod topics;

use milena_broker::config::{BrokerConfig, BrokerOverrides, ConfigError, TopicConfig, TopicOverrides};

use running::raw;

fn broker(pairs: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    BrokerConfig::resolve(BrokerOverrides::fixed(raw(pairs)))
}

fn overrides(pairs: &[(&str, &str)]) -> TopicOverrides {
    TopicOverrides(raw(pairs))
}

/// A topic with these settings on a broker without any.
fn topic(pairs: &[(&str, &str)]) -> Result<TopicConfig, ConfigError> {
    TopicConfig::resolve(&overrides(pairs), &broker(&[]).unwrap())
}

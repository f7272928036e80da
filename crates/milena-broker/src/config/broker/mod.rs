//! Configuration of the broker.

mod checks;
mod config;
mod limits;
mod listener;
mod table;
mod transactions;
mod unsupported;

pub(super) use config::wrong;
pub use config::{BrokerConfig, BrokerOverrides, CleanerConfig, RawConfig};
pub use limits::{LimitsConfig, QuotaConfig};
pub use listener::Listener;
pub(super) use table::{ASSIGNS_AT_ONCE, BROKER_CONFIGS, NO_SHARE_GROUPS, NO_STREAMS_GROUPS};
pub(super) use unsupported::{REMOVED_FORMAT, UNSUPPORTED};

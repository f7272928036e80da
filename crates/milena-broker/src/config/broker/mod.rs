//! Configuration of the broker.

mod authorizer;
mod checks;
mod config;
mod limits;
mod listener;
mod listener_keys;
mod listener_security;
mod references;
mod table;
mod token_options;
mod transactions;
mod unsupported;

pub(super) use config::wrong;
pub use config::{BrokerConfig, BrokerOverrides, CleanerConfig, ListenerLimits, RawConfig};
pub use limits::{LimitsConfig, QuotaConfig};
pub use listener::Listener;
pub(crate) use listener_keys::{ListenerKey, ListenerValues, definition_of};
pub(crate) use listener_security::{ListenerSecurity, SaslOptions};
pub(super) use table::{ASSIGNS_AT_ONCE, BROKER_CONFIGS, NO_SHARE_GROUPS, NO_STREAMS_GROUPS};
pub(crate) use token_options::{JwksOptions, JwksSource, TokenOptions, TokenRules, UnsecuredRules};
pub(super) use unsupported::{REMOVED_FORMAT, UNSUPPORTED};

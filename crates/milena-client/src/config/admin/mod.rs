//! Configuration of the admin client.

mod builder;
mod checks;
mod config;
mod names;
mod table;

pub use builder::AdminConfigBuilder;
pub use config::AdminConfig;
pub(super) use names::{OLD_NAMES, PREFIXES};
pub(super) use table::ADMIN_CONFIGS;

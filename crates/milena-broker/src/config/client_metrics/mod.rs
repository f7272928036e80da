//! Configuration of client metrics subscriptions (KIP-714).

mod config;
mod table;

pub use config::MetricsSubscription;
pub(crate) use config::{INTERVAL_MS_DEFAULT, compile};
pub(super) use config::{check_own, resolve};
pub(super) use table::CLIENT_METRICS_CONFIGS;

//! Configuration of topics.

mod config;
mod table;
mod types;

pub use config::{TopicConfig, TopicOverrides};
pub(super) use table::{GROWING_FILES, NO_REMOTE_STORAGE, ONE_NODE, TOPIC_CONFIGS};
pub(super) use types::COMPRESSION_TYPES;
pub use types::{CleanupPolicy, CompressionType, Durability, TimestampType};

//! How long topics keep their records.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use milena_client::admin::{Admin, ConfigEntry, ConfigResource};

use super::CleanError;

/// Number of topics in one request.
const DESCRIBE_MAX: usize = 200;

/// The settings by which a topic deletes records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicRetention {
    /// `cleanup.policy`
    pub policy: String,
    /// `retention.ms`; negative is for ever.
    pub retention_ms: i64,
    /// `segment.ms`: a record goes with the last one of its segment.
    pub segment_ms: i64,
}

impl TopicRetention {
    /// Longest time for which the topic keeps a record; `None` is without a bound. A compacted topic keeps the last record
    /// of each key. With `compact,delete` there is no bound either: compaction merges segments, and an old record stays
    /// as long as the newest one of its segment.
    pub fn longest(&self) -> Option<Duration> {
        let is_compacted = self.policy.split(',').any(|part| part.trim() == "compact");
        if is_compacted || self.retention_ms < 0 {
            return None;
        }
        let longest_ms = self.retention_ms.saturating_add(self.segment_ms.max(0));
        Some(Duration::from_millis(longest_ms.unsigned_abs()))
    }

    fn read(entries: &[ConfigEntry]) -> Self {
        let value = |name: &str| entries.iter().find(|entry| entry.name == name)?.value.as_deref();
        let number = |name: &str| value(name).and_then(|text| text.parse().ok());
        Self {
            policy: value("cleanup.policy").unwrap_or("delete").to_owned(),
            // An unknown retention may be unlimited.
            retention_ms: number("retention.ms").unwrap_or(-1),
            segment_ms: number("segment.ms").unwrap_or(0),
        }
    }
}

pub(super) async fn describe(
    admin: &Admin,
    topics: BTreeSet<&str>,
) -> Result<BTreeMap<String, TopicRetention>, CleanError> {
    let topics: Vec<&str> = topics.into_iter().collect();
    let mut found = BTreeMap::new();
    for some in topics.chunks(DESCRIBE_MAX) {
        let resources = some.iter().map(|topic| ConfigResource::topic(*topic));
        for (resource, described) in admin.describe_configs(resources).await {
            let topic = resource.name.to_string();
            match described {
                Ok(entries) => found.insert(topic, TopicRetention::read(&entries)),
                Err(error) => return Err(CleanError::Unknown { topic, error }),
            };
        }
    }
    Ok(found)
}

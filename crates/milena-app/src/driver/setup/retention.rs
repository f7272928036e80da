//! How long topics keep their records, and how long those for retries and dead letters must.

use std::collections::BTreeMap;

use milena_client::admin::{Admin, ConfigEntry, ConfigResource};

use crate::{clock::millis, policy::DeadLetters};

/// The number of topics in one request.
const DESCRIBE_MAX: usize = 200;

/// The reason why records wait in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Retry { delay_ms: i64 },
    Held,
    DeadLetters,
}

/// The settings by which a topic deletes records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Retention {
    /// `cleanup.policy`
    pub(super) policy: String,
    /// `retention.ms`; -1 is for ever.
    pub(super) ms: i64,
    /// `retention.bytes`; -1 is without a bound.
    pub(super) bytes: i64,
}

impl Retention {
    /// The policy that deletes by time and size.
    pub(super) const DELETE: &str = "delete";

    fn read(entries: &[ConfigEntry]) -> Option<Self> {
        let value = |name: &str| entries.iter().find(|entry| entry.name == name)?.value.as_deref();
        Some(Self {
            policy: value("cleanup.policy").unwrap_or(Self::DELETE).to_owned(),
            ms: value("retention.ms")?.parse().ok()?,
            bytes: value("retention.bytes").map_or(Some(-1), |bytes| bytes.parse().ok())?,
        })
    }

    fn is(&self, policy: &str) -> bool {
        self.policy.split(',').any(|part| part.trim() == policy)
    }

    /// How long a record stays; -1 if no time deletes it.
    fn time_ms(&self) -> i64 {
        if self.is(Self::DELETE) { self.ms } else { -1 }
    }

    /// The settings by which the topic may delete a record too soon: name, value and the value it needs.
    fn problems(&self, required_ms: i64) -> Vec<(&'static str, String, String)> {
        let mut problems = vec![];
        if self.is("compact") {
            let needs = Self::DELETE.to_owned();
            problems.push(("cleanup.policy", self.policy.clone(), needs));
        }
        let time_ms = self.time_ms();
        if time_ms >= 0 && (required_ms < 0 || time_ms < required_ms) {
            problems.push(("retention.ms", time_ms.to_string(), required_ms.to_string()));
        }
        if self.is(Self::DELETE) && self.bytes >= 0 {
            problems.push(("retention.bytes", self.bytes.to_string(), "-1".to_owned()));
        }
        problems
    }

    /// Warns of each setting by which a topic that already existed may delete records too soon.
    pub(super) fn warn(&self, topic: &str, origin: &str, required_ms: i64) {
        for (setting, value, needs) in self.problems(required_ms) {
            tracing::warn!(
                event = "failure_topic_may_lose_records",
                topic,
                setting,
                value,
                needs,
                "topic {topic} keeps failed records of {origin}, and {setting}={value} may delete them too soon; set \
                 {setting}={needs}"
            );
        }
    }
}

/// How long a topic for failed records must keep them; -1 is for ever. At least as long as the topic that they are from, and
/// those that wait also for as long as they wait. Dead letters have their own time if one was declared.
pub(super) fn required_ms(dead_letters: &DeadLetters, kept: Kept, origin: Option<&Retention>) -> i64 {
    let own_ms = millis(dead_letters.retention.unwrap_or(DeadLetters::RETENTION));
    if kept == Kept::DeadLetters && dead_letters.retention.is_some() {
        return own_ms;
    }
    let origin_ms = origin.map_or(0, Retention::time_ms);
    if origin_ms < 0 {
        return -1;
    }
    let delay_ms = match kept {
        Kept::Retry { delay_ms } => delay_ms,
        Kept::Held | Kept::DeadLetters => 0,
    };
    own_ms.max(origin_ms).saturating_add(delay_ms)
}

/// The settings of topics in the cluster. Those of which it says nothing are left out, with a warning.
pub(super) async fn describe<'a>(admin: &Admin, topics: impl Iterator<Item = &'a str>) -> BTreeMap<String, Retention> {
    let mut found = BTreeMap::new();
    let topics: std::collections::BTreeSet<&str> = topics.collect();
    let topics: Vec<&str> = topics.into_iter().collect();
    for some in topics.chunks(DESCRIBE_MAX) {
        let resources = some.iter().map(|topic| ConfigResource::topic(*topic));
        for (resource, described) in admin.describe_configs(resources).await {
            match described.map(|entries| Retention::read(&entries)) {
                Ok(Some(retention)) => {
                    found.insert(resource.name.to_string(), retention);
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(
                    event = "topic_config_unknown",
                    topic = &*resource.name,
                    %error,
                    "cannot read the configuration of topic {}, so its retention is not checked; allow DescribeConfigs",
                    resource.name
                ),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn kept_for(days: i64) -> Retention {
        Retention {
            policy: "delete".to_owned(),
            ms: if days < 0 { -1 } else { days * DAY_MS },
            bytes: -1,
        }
    }

    #[test]
    fn failed_records_stay_at_least_as_long_as_the_topic_they_are_from() {
        let dead_letters = DeadLetters::default();
        let required = |kept, origin: &Retention| required_ms(&dead_letters, kept, Some(origin));
        assert_eq!(required(Kept::DeadLetters, &kept_for(7)), 30 * DAY_MS);
        assert_eq!(required(Kept::DeadLetters, &kept_for(90)), 90 * DAY_MS);
        assert_eq!(required(Kept::DeadLetters, &kept_for(-1)), -1);
        assert_eq!(required_ms(&dead_letters, Kept::Held, None), 30 * DAY_MS);
        let delay_ms = 60_000;
        assert_eq!(
            required(Kept::Retry { delay_ms }, &kept_for(90)),
            90 * DAY_MS + delay_ms
        );
        let compacted = Retention {
            policy: "compact".to_owned(),
            ..kept_for(7)
        };
        assert_eq!(required(Kept::Held, &compacted), -1);
    }

    #[test]
    fn a_declared_time_is_that_of_dead_letters_and_not_of_records_that_wait() {
        let dead_letters = DeadLetters::default().retention(Duration::from_secs(86_400));
        let origin = kept_for(7);
        assert_eq!(required_ms(&dead_letters, Kept::DeadLetters, Some(&origin)), DAY_MS);
        assert_eq!(required_ms(&dead_letters, Kept::Held, Some(&origin)), 7 * DAY_MS);
    }

    #[test]
    fn settings_that_delete_too_soon_are_named() {
        let names = |retention: &Retention, required_ms| -> Vec<&str> {
            let problems = retention.problems(required_ms);
            problems.into_iter().map(|(name, ..)| name).collect()
        };
        assert_eq!(names(&kept_for(30), 30 * DAY_MS), [""; 0]);
        assert_eq!(names(&kept_for(-1), 30 * DAY_MS), [""; 0]);
        assert_eq!(names(&kept_for(29), 30 * DAY_MS), ["retention.ms"]);
        assert_eq!(names(&kept_for(30), -1), ["retention.ms"]);
        let worst = Retention {
            policy: "compact, delete".to_owned(),
            bytes: 1 << 30,
            ..kept_for(7)
        };
        assert_eq!(
            names(&worst, 30 * DAY_MS),
            ["cleanup.policy", "retention.ms", "retention.bytes"]
        );
    }
}

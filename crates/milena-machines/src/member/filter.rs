//! Filters of topic names.

use std::{fmt, sync::Arc};

use regex::Regex;

/// A predicate on topic names: a regular expression, or any function.
#[derive(Clone)]
pub struct TopicFilter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl TopicFilter {
    pub fn new(matches: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(matches))
    }

    pub fn matches(&self, topic: &str) -> bool {
        (self.0)(topic)
    }
}

/// The expression must match the whole name by itself (`^(?:…)$`).
impl From<Regex> for TopicFilter {
    fn from(regex: Regex) -> Self {
        Self::new(move |topic| regex.is_match(topic))
    }
}

impl fmt::Debug for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicFilter").finish_non_exhaustive()
    }
}

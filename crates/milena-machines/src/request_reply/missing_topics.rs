//! Reply topics that do not exist.

use std::collections::{BTreeMap, BTreeSet};

/// Bound of remembered topics. Their names come from requests.
const TOPICS_MAX: usize = 1_000;

/// Topics that were found missing a short time ago. Replies to them are dropped at once: waiting for each of them would
/// let a requester that names wrong topics stop a service.
#[derive(Debug, Default)]
pub struct MissingTopics {
    until_ms: BTreeMap<String, i64>,
    by_time: BTreeSet<(i64, String)>,
}

impl MissingTopics {
    /// Time for which a topic counts as missing.
    pub const REMEMBERED_MS: i64 = 5_000;

    pub fn insert(&mut self, topic: &str, now_ms: i64) {
        let until_ms = now_ms.saturating_add(Self::REMEMBERED_MS);
        if let Some(before) = self.until_ms.insert(topic.to_owned(), until_ms) {
            self.by_time.remove(&(before, topic.to_owned()));
        }
        self.by_time.insert((until_ms, topic.to_owned()));
        if self.by_time.len() > TOPICS_MAX {
            self.remove_first();
        }
    }

    pub fn contains(&mut self, topic: &str, now_ms: i64) -> bool {
        while self.by_time.first().is_some_and(|(until_ms, _)| *until_ms <= now_ms) {
            self.remove_first();
        }
        self.until_ms.contains_key(topic)
    }

    fn remove_first(&mut self) {
        if let Some((_, topic)) = self.by_time.pop_first() {
            self.until_ms.remove(&topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_missing_for_a_while() {
        let mut missing = MissingTopics::default();
        missing.insert("replies.a", 0);
        missing.insert("replies.a", 1_000);
        assert!(missing.contains("replies.a", 5_999));
        assert!(!missing.contains("replies.b", 5_999));
        assert!(!missing.contains("replies.a", 6_000));
        assert!(missing.by_time.is_empty());
    }

    #[test]
    fn the_number_of_topics_is_bounded() {
        let mut missing = MissingTopics::default();
        for number in 0..2_000 {
            missing.insert(&format!("replies.{number}"), number);
        }
        assert_eq!(
            (missing.by_time.len(), missing.until_ms.len()),
            (TOPICS_MAX, TOPICS_MAX)
        );
        assert!(missing.contains("replies.1999", 2_000));
        assert!(!missing.contains("replies.0", 2_000));
    }
}

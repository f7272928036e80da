//! Which requests a handler answers, and where replies may go.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use milena_machines::request_reply::{AnswerConfig, MissingTopics, is_expired};

use super::ReplyAddress;
use crate::{
    clock::millis,
    topics::{TopicName, TopicNameError},
};

/// Settings of a handler that answers requests, for [`Policy::replies`](crate::policy::Policy::replies).
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "reply settings have no effect until they are part of a policy"]
pub struct Replies {
    pub(crate) topics: Vec<String>,
    pub(crate) skip_expired: bool,
    pub(crate) errors: bool,
    pub(crate) clock_skew: Duration,
    pub(crate) timeout: Duration,
}

impl Default for Replies {
    fn default() -> Self {
        let answer = AnswerConfig::default();
        let time = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        Self {
            topics: vec![],
            skip_expired: true,
            errors: true,
            clock_skew: time(answer.clock_skew_ms),
            timeout: time(answer.reply_ms_max),
        }
    }
}

impl Replies {
    /// Topics that requests may name for their replies: names, patterns or regular expressions as in
    /// [`App::on`](crate::App::on). The name in a request is not trusted; without a bound, a client could make the
    /// service write to any topic. By default, names with the word `reply` or `replies` are allowed: `replies`,
    /// `replies.svc-a`, `quotes-replies`.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics = topics.into_iter().map(Into::into).collect();
        self
    }

    /// Calls the handler for requests whose requester has given up. By default they are skipped and counted. Batch
    /// handlers always get them. Their replies are not written either way.
    pub fn handle_expired(mut self) -> Self {
        self.skip_expired = false;
        self
    }

    /// Sends no reply for requests that become dead letters. By default the requester gets the error, with its class
    /// and message.
    pub fn without_errors(mut self) -> Self {
        self.errors = false;
        self
    }

    /// Tolerated difference between the clocks of requester and service: 1 s by default. A request counts as expired
    /// that much after its deadline.
    pub fn clock_skew(mut self, time: Duration) -> Self {
        self.clock_skew = time;
        self
    }

    /// Time for which the write of a reply is tried: 10 s by default, and never longer than the request's deadline.
    /// Then the reply is dropped and counted, because a requester that is gone must not stop the service.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    pub(crate) fn answer(&self) -> AnswerConfig {
        AnswerConfig {
            clock_skew_ms: millis(self.clock_skew),
            reply_ms_max: millis(self.timeout),
        }
    }
}

/// Rules of one handler, and the reply topics that it knows.
#[derive(Debug)]
pub(crate) struct ReplyRules {
    /// Empty for the default rule.
    topics: Vec<TopicName>,
    pub(crate) answer: AnswerConfig,
    /// Whether dead letters are reported to requesters.
    pub(crate) errors: bool,
    seen: Mutex<SeenTopics>,
}

/// Bound of reply topics that are known to exist. Their names come from requests.
const KNOWN_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct SeenTopics {
    known: BTreeSet<String>,
    missing: MissingTopics,
}

/// Whether a reply topic exists, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenTopic {
    Known,
    Missing,
    New,
}

impl ReplyRules {
    /// A handler without reply settings answers if it returns a reply, but reports no dead letters.
    pub(crate) fn new(replies: Option<&Replies>) -> Result<Self, TopicNameError> {
        let settings = replies.cloned().unwrap_or_else(|| Replies::default().without_errors());
        let topics = settings.topics.iter().map(|topic| TopicName::parse(topic));
        Ok(Self {
            topics: topics.collect::<Result<_, _>>()?,
            answer: settings.answer(),
            errors: settings.errors,
            seen: Mutex::default(),
        })
    }

    pub(crate) fn allows(&self, topic: &str) -> bool {
        if self.topics.is_empty() {
            return is_reply_topic(topic);
        }
        self.topics.iter().any(|allowed| allowed.captures(topic).is_some())
    }

    pub(crate) fn is_expired(&self, address: &ReplyAddress, now_ms: i64) -> bool {
        is_expired(self.answer, address.deadline_ms, now_ms)
    }

    pub(crate) fn look_up(&self, topic: &str, now_ms: i64) -> SeenTopic {
        let mut seen = self.seen();
        if seen.known.contains(topic) {
            SeenTopic::Known
        } else if seen.missing.contains(topic, now_ms) {
            SeenTopic::Missing
        } else {
            SeenTopic::New
        }
    }

    pub(crate) fn note_known(&self, topic: &str) {
        let mut seen = self.seen();
        if seen.known.len() >= KNOWN_MAX {
            seen.known.clear();
        }
        seen.known.insert(topic.to_owned());
    }

    pub(crate) fn note_missing(&self, topic: &str, now_ms: i64) {
        let mut seen = self.seen();
        seen.known.remove(topic);
        seen.missing.insert(topic, now_ms);
    }

    fn seen(&self) -> MutexGuard<'_, SeenTopics> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The default rule: a part of the name between dots, dashes and underscores is `reply` or `replies`. Internal topics,
/// which begin with two underscores, are never allowed.
fn is_reply_topic(topic: &str) -> bool {
    let mut words = topic.split(['.', '-', '_']);
    !topic.starts_with("__")
        && words.any(|word| word.eq_ignore_ascii_case("reply") || word.eq_ignore_ascii_case("replies"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_only_reply_topics_are_allowed() {
        let rules = ReplyRules::new(None).unwrap();
        for topic in [
            "replies",
            "replies.svc-a",
            "quotes-replies",
            "Quotes.Reply",
            "a_reply_b",
        ] {
            assert!(rules.allows(topic), "{topic}");
        }
        for topic in [
            "orders",
            "kReplies",
            "__replies",
            "__consumer_offsets",
            "noreply",
            "repliesx",
        ] {
            assert!(!rules.allows(topic), "{topic}");
        }
    }

    #[test]
    fn declared_topics_replace_the_default() {
        let replies = Replies::default().topics(["kReplies", "answers-{service}", "^x[0-9]+$"]);
        let rules = ReplyRules::new(Some(&replies)).unwrap();
        for topic in ["kReplies", "answers-billing", "x12"] {
            assert!(rules.allows(topic), "{topic}");
        }
        for topic in ["replies", "answers-a.b", "x", "orders"] {
            assert!(!rules.allows(topic), "{topic}");
        }
        assert!(ReplyRules::new(Some(&Replies::default().topics(["^("]))).is_err());
    }

    #[test]
    fn topics_are_known_missing_or_new() {
        let rules = ReplyRules::new(None).unwrap();
        assert_eq!(rules.look_up("replies", 0), SeenTopic::New);
        rules.note_known("replies");
        assert_eq!(rules.look_up("replies", 0), SeenTopic::Known);
        rules.note_missing("replies", 0);
        assert_eq!(rules.look_up("replies", 4_999), SeenTopic::Missing);
        assert_eq!(rules.look_up("replies", 5_000), SeenTopic::New);
    }
}

//! Subscriptions by regular expression.
//!
//! Kafka matches in the background and lets a group wait up to ten seconds for the next round. We match at once, since
//! matching takes time linear in pattern and names, and the memory of a pattern is bounded.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{errors::ErrorCode, messages::ConsumerGroupRegularExpressionValue};
use regex::{Regex, RegexBuilder};

use super::{Refusal, group::ConsumerGroup, member::Member, refuse, settle::Report};
use crate::{
    TopicsImage,
    group::{Group, GroupCoordinator, GroupEffects, GroupRecord, VisibleTopics},
};

/// The memory limit of a compiled pattern, and of the tables built while matching.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// A regular expression and the topics that it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedRegex {
    pub(super) topics: BTreeSet<ByteString>,
}

pub(super) fn check_regex(pattern: &str) -> Result<(), Refusal> {
    match compile(pattern) {
        Ok(_) => Ok(()),
        Err(error) => Err(refuse(
            ErrorCode::InvalidRegularExpression,
            format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}"),
        )),
    }
}

/// A pattern must match a whole name. It is compiled by itself first, so that it cannot close our parentheses.
fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let build = |pattern: &str| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        builder.build()
    };
    build(pattern)?;
    build(&format!("^(?:{pattern})$"))
}

/// An invalid pattern from the log matches nothing.
fn resolve(pattern: &str, topics: &TopicsImage, visible: Option<&VisibleTopics>) -> BTreeSet<ByteString> {
    let Ok(regex) = compile(pattern) else {
        return BTreeSet::new();
    };
    let names = topics.iter().map(|(name, _)| name);
    let is_visible = |name: &ByteString| visible.is_none_or(|visible| visible.contains(name));
    names
        .filter(|name| regex.is_match(name) && is_visible(name))
        .cloned()
        .collect()
}

impl ConsumerGroup {
    /// Whether topics were created since the patterns were matched, or the refresh interval is over.
    pub(super) fn regexes_are_due(&self, now_ms: i64, interval_ms: i32) -> bool {
        self.regexes_matched_ms
            .is_none_or(|matched_ms| now_ms >= matched_ms.saturating_add(interval_ms.into()))
    }
}

impl GroupCoordinator {
    /// Matches the patterns that are due. Returns whether the topics of any have changed.
    ///
    /// `had` is the previous pattern of the member. Like Kafka's, the patterns of all members match the topics that the
    /// reporting member may see.
    pub(super) fn refresh_regexes(
        &mut self,
        report: &Report<'_>,
        had: Option<&ByteString>,
        effects: &mut GroupEffects,
    ) -> bool {
        let Report { now_ms, group_id, .. } = *report;
        let interval_ms = self.config.regex_refresh_interval_ms;
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else {
            violated!("a_reporting_member_has_a_group");
            return false;
        };
        let all_are_due = group.regexes_are_due(now_ms, interval_ms);
        if all_are_due {
            group.regexes_matched_ms = Some(now_ms);
        }
        let used: BTreeSet<ByteString> = group.members.values().filter_map(Member::regex).cloned().collect();
        let is_due = |regex: &&ByteString| all_are_due || !group.regexes.contains_key(*regex);
        let due: Vec<ByteString> = used.iter().filter(is_due).cloned().collect();
        let unused = had.filter(|had| !used.contains(*had) && group.regexes.contains_key(*had));
        if let Some(unused) = unused {
            self.write_regex(group_id, unused, None, effects);
        }
        let mut have_changed = false;
        for regex in due {
            let topics = resolve(&regex, &self.topics, report.visible_topics);
            let is_known = match self.groups.get(group_id) {
                Some(Group::Consumer(group)) => group.regexes.get(&regex).is_some_and(|old| old.topics == topics),
                _ => false,
            };
            if !is_known {
                have_changed = true;
                self.write_regex(group_id, &regex, Some((topics, now_ms)), effects);
            }
        }
        have_changed
    }

    pub(super) fn write_regex(
        &mut self,
        group_id: &ByteString,
        regex: &ByteString,
        topics: Option<(BTreeSet<ByteString>, i64)>,
        effects: &mut GroupEffects,
    ) {
        let value = topics.map(|(topics, timestamp)| ConsumerGroupRegularExpressionValue {
            topics: topics.into_iter().collect(),
            timestamp,
            ..Default::default()
        });
        let (group_id, regex) = (group_id.clone(), regex.clone());
        self.write(GroupRecord::Regex { group_id, regex, value }, effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let matches = |pattern: &str, name: &str| compile(pattern).unwrap().is_match(name);
        assert!(matches("a|ab", "ab"));
        assert!(matches("foo.*", "foo-bar"));
        assert!(!matches("foo", "foo-bar"));
        assert!(!matches("oo", "foo"));
    }

    #[test]
    fn a_pattern_that_is_none_or_costs_too_much_is_refused() {
        for pattern in ["(", "a)(b", "*", "(?x)a # b", r"(\w{1000}){1000}"] {
            let refusal = check_regex(pattern).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidRegularExpression, "{pattern}");
        }
    }
}

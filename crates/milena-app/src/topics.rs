//! Which topics a handler reads: one by its name, or all that match a pattern such as `events-{tenant}`.

use std::sync::Arc;

use milena_machines::app::tier_suffix;
use regex::Regex;

/// The end of the name of a topic with dead letters.
const DEAD_LETTERS: &str = ".dlq";

/// The end of the name of a topic, and of a group, for what is held so that keys stay in order.
pub(crate) const HELD: &str = ".held";

/// What is wrong with the name or pattern of a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no topics: {problem}")]
pub struct TopicNameError {
    pub text: String,
    pub problem: &'static str,
}

/// A topic's name, or a pattern of names.
#[derive(Debug, Clone)]
pub(crate) struct TopicName {
    text: String,
    pattern: Option<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    /// Without anchors, as part of larger expressions.
    source: String,
    regex: Regex,
    names: Vec<Arc<str>>,
    /// The same, but names in braces may have dots.
    dotted: Regex,
}

/// A part in braces stands for one or more of these. The dot is not among them, so that no pattern takes its own retry
/// topics and dead letters for topics of its own.
const PART: &str = "([A-Za-z0-9_-]+)";

/// The same with dots.
const DOTTED_PART: &str = "([A-Za-z0-9._-]+)";

impl TopicName {
    pub(crate) fn parse(text: &str) -> Result<Self, TopicNameError> {
        let error = |problem| TopicNameError {
            text: text.to_owned(),
            problem,
        };
        if text.is_empty() {
            return Err(error("it is empty"));
        }
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let (mut source, mut names, mut rest) = (String::new(), vec![], text);
        while let Some((plain, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or_else(|| error("a brace is not closed"))?;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(error("between braces stands a name of letters, digits and underscores"));
            }
            if names.iter().any(|known: &Arc<str>| **known == *name) {
                return Err(error("a name stands in it twice"));
            }
            source.push_str(&regex::escape(plain));
            source.push_str(PART);
            names.push(Arc::from(name));
            rest = behind;
        }
        source.push_str(&regex::escape(rest));
        let plain = text.split(['{', '}']).step_by(2).collect::<String>();
        if !plain.chars().all(is_legal) {
            return Err(error(
                "names of topics have letters, digits, dots, dashes and underscores",
            ));
        }
        let pattern = if names.is_empty() {
            None
        } else {
            let compiled =
                |source: &str| Regex::new(&format!("^{source}$")).map_err(|_| error("the pattern is too large"));
            let regex = compiled(&source)?;
            let dotted = compiled(&source.replace(PART, DOTTED_PART))?;
            Some(Pattern {
                source,
                regex,
                names,
                dotted,
            })
        };
        Ok(Self {
            text: text.to_owned(),
            pattern,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// As a regular expression for whole names.
    pub(crate) fn expression(&self) -> String {
        match &self.pattern {
            Some(pattern) => pattern.source.clone(),
            None => regex::escape(&self.text),
        }
    }

    /// What the braces stand for in this name; `None` if it is not one of these topics.
    pub(crate) fn captures(&self, topic: &str) -> Option<Vec<(Arc<str>, String)>> {
        let Some(pattern) = &self.pattern else {
            return (topic == self.text).then(Vec::new);
        };
        let found = pattern.regex.captures(topic)?;
        let values = found.iter().skip(1).flatten().map(|value| value.as_str().to_owned());
        Some(pattern.names.iter().cloned().zip(values).collect())
    }
}

impl TopicName {
    /// Whether a topic is not one of these only because it has a dot where a name in braces stands.
    pub(crate) fn is_near_miss(&self, topic: &str) -> bool {
        let Some(pattern) = &self.pattern else { return false };
        !is_letter_topic(topic) && !pattern.regex.is_match(topic) && pattern.dotted.is_match(topic)
    }
}

/// Whether a topic is named as those for records that failed are.
fn is_letter_topic(topic: &str) -> bool {
    let last = topic.rsplit('.').next().unwrap_or_default();
    topic.ends_with(DEAD_LETTERS) || topic.ends_with(HELD) || last.starts_with("retry-")
}

/// The topic of what is to be tried again after this delay.
pub(crate) fn retry_topic(origin: &str, delay_ms: i64) -> String {
    format!("{origin}.{}", tier_suffix(delay_ms))
}

/// The topic of what waits so that keys stay in order.
pub(crate) fn held_topic(origin: &str) -> String {
    format!("{origin}{HELD}")
}

/// The topic of what failed for good.
pub(crate) fn dead_letter_topic(origin: &str) -> String {
    format!("{origin}{DEAD_LETTERS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_itself_and_a_pattern_tells_what_its_braces_stand_for() {
        let orders = TopicName::parse("orders.v1").unwrap();
        assert_eq!(orders.captures("orders.v1"), Some(vec![]));
        assert_eq!(orders.captures("ordersxv1"), None);
        let events = TopicName::parse("events-{tenant}.{kind}").unwrap();
        let captures = events.captures("events-acme-2.clicks").unwrap();
        let captures: Vec<(&str, &str)> = captures.iter().map(|(name, value)| (&**name, value.as_str())).collect();
        assert_eq!(captures, [("tenant", "acme-2"), ("kind", "clicks")]);
        assert_eq!(events.captures("events-acme"), None);
    }

    #[test]
    fn a_pattern_never_takes_its_own_retry_topics() {
        let events = TopicName::parse("events-{tenant}").unwrap();
        assert!(events.captures("events-acme").is_some());
        assert_eq!(events.captures(&retry_topic("events-acme", 60_000)), None);
        assert_eq!(events.captures(&dead_letter_topic("events-acme")), None);
        assert_eq!(retry_topic("orders", 60_000), "orders.retry-1m");
        assert_eq!(dead_letter_topic("orders"), "orders.dlq");
    }

    #[test]
    fn topics_that_a_dot_keeps_out_are_found() {
        let events = TopicName::parse("events-{tenant}").unwrap();
        assert!(events.is_near_miss("events-acme.eu"));
        for other in [
            "events-acme",
            "orders.eu",
            "events-acme.dlq",
            "events-acme.retry-1m",
            "events-acme.held",
        ] {
            assert!(!events.is_near_miss(other), "{other}");
        }
        assert!(!TopicName::parse("events").unwrap().is_near_miss("events.eu"));
    }

    #[test]
    fn what_names_no_topic_is_refused_with_a_reason() {
        for text in [
            "",
            "events-{",
            "events-{}",
            "events-{a b}",
            "{a}-{a}",
            "or ders",
            "ord/ers",
        ] {
            let error = TopicName::parse(text).unwrap_err();
            assert!(error.to_string().contains("names no topics"), "{error}");
        }
    }
}

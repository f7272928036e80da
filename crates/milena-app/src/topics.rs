//! Topic selectors of handlers: a name, a pattern such as `events-{tenant}`, or a regular expression such as
//! `^events-[a-z]{2}-.*$`.

use std::sync::Arc;

use milena_machines::app::retry_topic_suffix;
use regex::Regex;

/// Suffix of dead letter topics.
const DEAD_LETTERS: &str = ".dlq";

/// Suffix of held-keys topics, and of the groups that read them.
pub(crate) const HELD: &str = ".held";

/// Reason why a text is not a topic selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a topic, pattern or regular expression: {problem}")]
pub struct TopicNameError {
    pub text: String,
    pub problem: String,
}

/// A topic name, a pattern such as `events-{tenant}`, or a regular expression, which starts with `^`.
#[derive(Debug, Clone)]
pub(crate) struct TopicName {
    text: String,
    pattern: Option<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    kind: Kind,
    /// Matches whole names.
    regex: Regex,
    /// Names and numbers of the capture groups.
    groups: Vec<(usize, Arc<str>)>,
    /// Matches near misses too: names with dots in place of braces, or with more text behind a regular expression.
    wider: Regex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Braces,
    Expression,
}

/// Characters that a name in braces matches. The dot is excluded, so that a pattern does not match its own retry and
/// dead letter topics.
const PART: &str = "[A-Za-z0-9_-]+";

/// As `PART`, with dots.
const DOTTED_PART: &str = "[A-Za-z0-9._-]+";

impl TopicName {
    pub(crate) fn parse(text: &str) -> Result<Self, TopicNameError> {
        let pattern = if text.starts_with('^') {
            Pattern::expression(text).map(Some)
        } else {
            Pattern::braces(text)
        };
        match pattern {
            Ok(pattern) => Ok(Self {
                text: text.to_owned(),
                pattern,
            }),
            Err(problem) => Err(TopicNameError {
                text: text.to_owned(),
                problem,
            }),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Returns the captures of a topic name, or `None` if it does not match. Retry, held-keys and dead letter topics do
    /// not match.
    pub(crate) fn captures(&self, topic: &str) -> Option<Vec<(Arc<str>, String)>> {
        let Some(pattern) = &self.pattern else {
            return (topic == self.text).then(Vec::new);
        };
        let found = pattern.regex.captures(topic)?;
        if origin_of(topic).is_some_and(|origin| pattern.regex.is_match(origin)) {
            return None;
        }
        let groups = pattern.groups.iter();
        let values =
            groups.filter_map(|(group, name)| Some((Arc::clone(name), found.get(*group)?.as_str().to_owned())));
        Some(values.collect())
    }

    /// Returns whether a topic is excluded for a reason that the author may not have intended: see
    /// [`near_miss_remedy`].
    ///
    /// [`near_miss_remedy`]: Self::near_miss_remedy
    pub(crate) fn is_near_miss(&self, topic: &str) -> bool {
        let Some(pattern) = &self.pattern else { return false };
        origin_of(topic).is_none() && !pattern.regex.is_match(topic) && pattern.wider.is_match(topic)
    }

    /// Reason of near misses, with a remedy.
    pub(crate) fn near_miss_remedy(&self) -> &'static str {
        match self.pattern.as_ref().map(|pattern| pattern.kind) {
            Some(Kind::Expression) => {
                "the expression must match the whole name; end it with .* to read them, or with $ to leave them out"
            }
            _ => "a name in braces does not match dots; use a pattern with braces on both sides of the dot",
        }
    }
}

impl Pattern {
    fn expression(text: &str) -> Result<Self, String> {
        let reason = |error: regex::Error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            let reason = last.strip_prefix("error: ").unwrap_or(last).to_owned();
            format!("invalid regular expression: {reason}")
        };
        Regex::new(text).map_err(reason)?;
        if matches!(text, "^" | "^$") {
            return Err("the expression matches no name; use ^.* for all".to_owned());
        }
        let regex = Regex::new(&format!("^(?:{text})$")).map_err(reason)?;
        let groups = regex.capture_names().enumerate();
        let groups = groups.filter_map(|(group, name)| Some((group, Arc::from(name?))));
        Ok(Self {
            kind: Kind::Expression,
            groups: groups.collect(),
            regex,
            wider: Regex::new(&format!("^(?:{text})")).map_err(reason)?,
        })
    }

    /// Parses a pattern with names in braces; `None` if the text is a plain name.
    fn braces(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        let (mut source, mut dotted) = ("^".to_owned(), "^".to_owned());
        let (mut names, mut rest): (Vec<Arc<str>>, &str) = (vec![], text);
        while let Some((plain, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or("a brace is not closed")?;
            let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_legal) {
                return Err("a name in braces has letters, digits and underscores".to_owned());
            }
            if names.iter().any(|known| **known == *name) {
                return Err("a name in braces occurs twice".to_owned());
            }
            names.push(Arc::from(name));
            let plain = regex::escape(plain);
            source.push_str(&format!("{plain}({PART})"));
            dotted.push_str(&format!("{plain}{DOTTED_PART}"));
            rest = behind;
        }
        let plain = text.split(['{', '}']).step_by(2).collect::<String>();
        if !plain.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
            return Err("topic names have letters, digits, dots, dashes and underscores".to_owned());
        }
        if names.is_empty() {
            return Ok(None);
        }
        let end = regex::escape(rest);
        let compiled = |source: String| Regex::new(&source).map_err(|_| "the pattern is too large".to_owned());
        Ok(Some(Self {
            kind: Kind::Braces,
            groups: names
                .into_iter()
                .enumerate()
                .map(|(place, name)| (place + 1, name))
                .collect(),
            regex: compiled(format!("{source}{end}$"))?,
            wider: compiled(format!("{dotted}{end}$"))?,
        }))
    }
}

/// Finds the topics of a handler among those of a cluster: those that it reads, and their retry, held-keys and dead
/// letter topics. A dead letter topic with a name of its own is not among them.
pub fn topics_of_handler<'a>(
    handler: &str,
    listed: impl Iterator<Item = &'a str>,
) -> Result<Vec<&'a str>, TopicNameError> {
    let name = TopicName::parse(handler)?;
    let reads = |topic: &str| name.captures(topic).is_some();
    Ok(listed
        .filter(|topic| reads(topic) || origin_of(topic).is_some_and(reads))
        .collect())
}

/// Returns the main topic of a retry, held-keys or dead letter topic; `None` for other topics.
fn origin_of(topic: &str) -> Option<&str> {
    let (origin, last) = topic.rsplit_once('.')?;
    let is_delay = |delay: &str| delay.starts_with(|c: char| c.is_ascii_digit());
    let is_letters = [DEAD_LETTERS, HELD]
        .iter()
        .any(|suffix| suffix.strip_prefix('.') == Some(last));
    (is_letters || last.strip_prefix("retry-").is_some_and(is_delay)).then_some(origin)
}

/// Name of the retry topic for this delay.
pub(crate) fn retry_topic(origin: &str, delay_ms: i64) -> String {
    format!("{origin}.{}", retry_topic_suffix(delay_ms))
}

/// Name of the held-keys topic.
pub(crate) fn held_topic(origin: &str) -> String {
    format!("{origin}{HELD}")
}

/// Name of the dead letter topic.
pub(crate) fn dead_letter_topic(origin: &str) -> String {
    format!("{origin}{DEAD_LETTERS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_has_the_topics_that_it_reads_and_those_of_their_failures() {
        let listed = [
            "orders",
            "orders.retry-1m",
            "orders.dlq",
            "orders.held",
            "orders.eu",
            "other",
        ];
        let of = |handler: &str| topics_of_handler(handler, listed.into_iter()).unwrap();
        assert_eq!(of("orders"), ["orders", "orders.retry-1m", "orders.dlq", "orders.held"]);
        assert_eq!(
            of("^orders.*$"),
            ["orders", "orders.retry-1m", "orders.dlq", "orders.held", "orders.eu"]
        );
        assert!(of("none").is_empty());
        assert!(topics_of_handler("^(", listed.into_iter()).is_err());
    }

    #[test]
    fn a_name_matches_itself_and_a_pattern_captures_its_braces() {
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
            "^",
            "^$",
            "^events-(",
            "^(?<a>x)(?<a>y)$",
        ] {
            let error = TopicName::parse(text).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("is not a topic, pattern or regular expression"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_expression_matches_whole_names_with_dots_and_captures_its_named_groups() {
        let events = TopicName::parse("^events-(?<region>[a-z]{2})-(?<tenant>.*?)(-(?<kind>v[0-9]+))?$").unwrap();
        let found = |topic| {
            let captures: Option<Vec<(Arc<str>, String)>> = events.captures(topic);
            captures.map(|all| {
                all.iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(
            found("events-eu-acme.de-v2").unwrap(),
            ["region=eu", "tenant=acme.de", "kind=v2"]
        );
        assert_eq!(found("events-eu-acme").unwrap(), ["region=eu", "tenant=acme"]);
        for other in [
            "events-euro-acme",
            "my-events-eu-acme",
            "events-eu-acme.dlq",
            "events-eu-acme.retry-1m",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
        let either = TopicName::parse("^a|b$").unwrap();
        for (topic, is_read) in [("a", true), ("b", true), ("ax", false), ("xb", false)] {
            assert_eq!(either.captures(topic).is_some(), is_read, "{topic}");
        }
    }

    #[test]
    fn topics_that_go_on_behind_an_expression_are_found() {
        let open = TopicName::parse("^events-").unwrap();
        assert!(open.is_near_miss("events-acme"));
        assert!(!open.is_near_miss("my-events-acme"));
        assert!(!TopicName::parse("^events-$").unwrap().is_near_miss("events-acme"));
    }

    #[test]
    fn a_bad_expression_is_refused_with_its_reason() {
        let error = TopicName::parse("^events-(").unwrap_err();
        assert!(error.to_string().contains("unclosed group"), "{error}");
    }
}

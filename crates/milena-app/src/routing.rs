//! Routing table: the handler of a topic, and the role of the topic: main, retry or held-keys topic.
//!
//! All handlers of an application share one table, so that each topic has one reader across delivery guarantees. A name
//! takes precedence over a pattern, and an earlier pattern over a later one.

use std::{collections::BTreeSet, sync::Arc};

use milena_machines::app::Role;

use crate::{
    clock::millis,
    driver::keeps_key_order,
    route::{Delivery, Route},
    topics::{HELD, TopicName, retry_topic},
};

#[derive(Debug, Clone, Default)]
pub(crate) struct Routing {
    readers: Vec<Reader>,
    /// Dead letter topics named in policies. Patterns do not match them.
    dead_letters: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Reader {
    topics: TopicName,
    delivery: Delivery,
    /// Index among the handlers of the same delivery guarantee.
    place: usize,
    delays_ms: Vec<i64>,
    keeps_key_order: bool,
}

/// The reader of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicRoute {
    /// Index among all handlers.
    pub(crate) index: usize,
    pub(crate) delivery: Delivery,
    /// Index among the handlers of the same delivery guarantee.
    pub(crate) place: usize,
    pub(crate) role: Role,
    pub(crate) keeps_key_order: bool,
    pub(crate) captures: Captures,
}

/// Names and values.
type Captures = Vec<(Arc<str>, String)>;

impl Routing {
    pub(crate) fn new(routes: &[Route]) -> Self {
        let mut readers: Vec<Reader> = vec![];
        for route in routes {
            let same = readers.iter().filter(|reader| reader.delivery == route.delivery);
            readers.push(Reader {
                topics: route.topics.clone(),
                delivery: route.delivery,
                place: same.count(),
                delays_ms: route.policy.retry.topics.iter().copied().map(millis).collect(),
                keeps_key_order: keeps_key_order(route),
            });
        }
        let dead_letters = routes
            .iter()
            .filter_map(|route| route.policy.dead_letters.topic.clone());
        Self {
            readers,
            dead_letters: dead_letters.collect(),
        }
    }

    /// Returns the reader of a topic, if there is one.
    pub(crate) fn find(&self, topic: &str) -> Option<TopicRoute> {
        self.find_of(topic, false).or_else(|| self.find_of(topic, true))
    }

    fn find_of(&self, topic: &str, is_pattern: bool) -> Option<TopicRoute> {
        let readers = self.readers.iter().enumerate();
        let mut readers = readers.filter(|(_, reader)| reader.topics.is_pattern() == is_pattern);
        readers.find_map(|(index, reader)| {
            let (role, captures) = reader.reads(topic)?;
            if is_pattern && role == Role::Main && self.dead_letters.contains(topic) {
                return None;
            }
            Some(TopicRoute {
                index,
                delivery: reader.delivery,
                place: reader.place,
                role,
                keeps_key_order: reader.keeps_key_order,
                captures,
            })
        })
    }

    /// Returns the reader of a main topic; `None` for retry and held-keys topics.
    pub(crate) fn find_main(&self, topic: &str) -> Option<TopicRoute> {
        self.find(topic).filter(|found| found.role == Role::Main)
    }
}

impl Reader {
    fn reads(&self, topic: &str) -> Option<(Role, Captures)> {
        if let Some(captures) = self.topics.captures(topic) {
            return Some((Role::Main, captures));
        }
        let captures_before = |suffix: &str| self.topics.captures(topic.strip_suffix(suffix)?);
        if self.keeps_key_order {
            return Some((Role::HeldKeys, captures_before(HELD)?));
        }
        self.delays_ms.iter().enumerate().find_map(|(index, delay_ms)| {
            let captures = captures_before(&retry_topic("", *delay_ms))?;
            let role = Role::RetryTopic {
                index: u8::try_from(index).unwrap_or(u8::MAX),
                delay_ms: *delay_ms,
            };
            Some((role, captures))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        policy::{DeadLetters, Policy},
        route::One,
    };

    fn route(topics: &str, delivery: Delivery, policy: Policy) -> Route {
        Route {
            topics: TopicName::parse(topics).unwrap(),
            policy,
            delivery,
            handler: Arc::new(One::new(async || {})),
        }
    }

    fn main(topics: &str, policy: Policy) -> Route {
        route(topics, Delivery::AtLeastOnce, policy)
    }

    fn minute() -> Policy {
        Policy::default().then_topics([Duration::from_secs(60)])
    }

    fn reader(routing: &Routing, topic: &str) -> Option<(usize, Role)> {
        routing.find(topic).map(|found| (found.index, found.role))
    }

    const TIER: Role = Role::RetryTopic {
        index: 0,
        delay_ms: 60_000,
    };

    #[test]
    fn a_name_comes_before_patterns_and_those_in_their_order() {
        let routing = Routing::new(&[
            main("^events-.*$", minute()),
            route("events-{tenant}", Delivery::ExactlyOnce, Policy::default()),
            route("events-special", Delivery::ExactlyOnce, minute()),
        ]);
        assert_eq!(reader(&routing, "events-acme"), Some((0, Role::Main)));
        assert_eq!(reader(&routing, "events-acme.eu"), Some((0, Role::Main)));
        assert_eq!(reader(&routing, "events-special"), Some((2, Role::Main)));
        assert_eq!(reader(&routing, "events-special.retry-1m"), Some((2, TIER)));
        assert_eq!(reader(&routing, "events-acme.eu.retry-1m"), Some((0, TIER)));
        assert_eq!(reader(&routing, "orders"), None);
        let special = routing.find("events-special").unwrap();
        assert_eq!((special.delivery, special.place), (Delivery::ExactlyOnce, 1));
    }

    #[test]
    fn what_failed_is_not_read_as_if_it_were_new() {
        let all = Routing::new(&[main("^.*$", minute().keep_key_order())]);
        for topic in ["a.dlq", "a.b.dlq", "a.retry-1m", "a.retry-500ms"] {
            assert_eq!(reader(&all, topic), None, "{topic}");
        }
        assert_eq!(reader(&all, "a.held"), Some((0, Role::HeldKeys)));
        assert_eq!(reader(&all, "a.retry-policy"), Some((0, Role::Main)));
    }

    #[test]
    fn an_expression_for_dead_letters_reads_them() {
        let routing = Routing::new(&[main("orders", minute()), main(r"^.*\.dlq$", Policy::default())]);
        assert_eq!(reader(&routing, "orders.dlq"), Some((1, Role::Main)));
        assert_eq!(reader(&routing, "orders.dlq.dlq"), None);
    }

    #[test]
    fn a_topic_that_is_named_for_dead_letters_is_read_by_its_name_only() {
        let policy = || Policy::default().dead_letters(DeadLetters::default().topic("events-failed"));
        let routing = Routing::new(&[main("events-{tenant}", policy())]);
        assert_eq!(reader(&routing, "events-failed"), None);
        let named = [
            main("events-{tenant}", policy()),
            main("events-failed", Policy::default()),
        ];
        assert_eq!(reader(&Routing::new(&named), "events-failed"), Some((1, Role::Main)));
    }
}

//! Creates and checks the topics for failure records: retry topics, held-keys topics, dead letter topics.

mod retention;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytestring::ByteString;
use milena_client::{
    admin::{Admin, AdminError, NewPartitions, NewTopic, TopicListing},
    consumer::ErrorCode,
};
use tokio::sync::Mutex;

use crate::{
    clock::millis,
    error::StartError,
    policy::{Exhausted, Policy, RetryOrdering},
    route::{Delivery, Route},
    routing::{Routing, TopicRoute},
    topics::{TopicName, dead_letter_topic, held_topic, retry_topic},
};
use retention::{Kept, Retention};

type Listed = BTreeMap<ByteString, TopicListing>;

/// Finds and creates topics.
#[derive(Debug)]
pub(crate) struct Setup {
    admin: Admin,
    routes: Vec<(TopicName, Policy)>,
    routing: Arc<Routing>,
    /// Topics whose failure topics exist, except for dead letter topics that are created on demand.
    ready: Mutex<BTreeSet<String>>,
    /// Dead letter topics that exist.
    dead_letters: Mutex<BTreeSet<String>>,
}

/// A topic for failure records.
#[derive(Debug)]
struct Needed<'a> {
    topic: String,
    /// The topic whose records it gets.
    origin: &'a str,
    policy: &'a Policy,
    kept: Kept,
    /// It is created when its first record is written.
    is_lazy: bool,
}

impl Setup {
    pub(crate) fn new(admin: Admin, routes: &[Route]) -> Self {
        let routing = Arc::new(Routing::new(routes));
        let routes = routes.iter().map(|route| (route.topics.clone(), route.policy.clone()));
        Self {
            admin,
            routes: routes.collect(),
            routing,
            ready: Mutex::default(),
            dead_letters: Mutex::default(),
        }
    }

    /// Checks that all topics of handlers exist, and creates the missing topics for failure records.
    pub(crate) async fn check(&self, may_be_missing: bool) -> Result<(), StartError> {
        let listed = self.list().await?;
        for (name, _) in &self.routes {
            let is_missing = !name.is_pattern() && !listed.contains_key(name.text());
            if is_missing && !may_be_missing {
                let topic = name.text().to_owned();
                return Err(StartError::NoTopic { topic });
            }
        }
        self.warn_of_near_misses(&listed);
        let read = listed
            .iter()
            .filter(|(topic, listing)| self.finds(topic, listing).is_some());
        self.failure_topics(read.map(|(topic, _)| &**topic)).await
    }

    /// The handler of an existing topic. Patterns do not match internal topics, as in consumers; with
    /// `exclude.internal.topics=false` they are checked when they are assigned.
    fn finds(&self, topic: &str, listing: &TopicListing) -> Option<TopicRoute> {
        let found = self.routing.find_main(topic)?;
        let is_pattern = self.routes.get(found.index).is_some_and(|(name, _)| name.is_pattern());
        (!is_pattern || !listing.internal).then_some(found)
    }

    /// The handlers of all topics.
    pub(crate) fn routing(&self) -> &Arc<Routing> {
        &self.routing
    }

    /// Warns of topics that a pattern seems to mean and does not match.
    fn warn_of_near_misses(&self, listed: &Listed) {
        for (name, _) in &self.routes {
            let is_missed = |topic: &&ByteString| name.is_near_miss(topic) && self.route(topic).is_none();
            let missed: Vec<&str> = listed.keys().filter(is_missed).map(|topic| &**topic).collect();
            let Some(first) = missed.first() else { continue };
            let (pattern, count, remedy) = (name.text(), missed.len(), name.near_miss_remedy());
            tracing::warn!(
                event = "topics_not_matched",
                pattern,
                count,
                "{count} topics such as {first} are not read by {pattern}: {remedy}"
            );
        }
    }

    pub(crate) async fn exists(&self, topic: &str) -> Result<bool, StartError> {
        Ok(self.list().await?.contains_key(topic))
    }

    async fn list(&self) -> Result<Listed, StartError> {
        self.admin.list_topics().await.map_err(StartError::Topics)
    }

    /// The existing topics that handlers of a delivery read.
    pub(crate) async fn matching(&self, delivery: Delivery) -> Result<BTreeSet<String>, StartError> {
        let listed = self.list().await?;
        let is_read = |(topic, listing): &(&ByteString, &TopicListing)| {
            let found = self.finds(topic, listing);
            found.is_some_and(|found| found.delivery == delivery)
        };
        let read = listed.iter().filter(is_read);
        Ok(read.map(|(topic, _)| topic.to_string()).collect())
    }

    /// Creates the missing failure topics of some topics, and checks the existing ones.
    pub(crate) async fn failure_topics(&self, topics: impl Iterator<Item = &str>) -> Result<(), StartError> {
        let mut ready = self.ready.lock().await;
        let new: BTreeSet<&str> = topics.filter(|topic| !ready.contains(*topic)).collect();
        // A topic without a handler is a failure topic itself.
        let needed: Vec<Needed<'_>> = new
            .iter()
            .filter_map(|topic| Some(needed(topic, self.route(topic)?)))
            .flatten()
            .collect();
        if !needed.is_empty() {
            self.create_missing(&needed).await?;
        }
        ready.extend(new.into_iter().map(str::to_owned));
        Ok(())
    }

    /// Creates the dead letter topic of a topic that a pattern has matched, if it does not exist.
    pub(crate) async fn dead_letter_topic(&self, origin: &str) -> Result<(), StartError> {
        let Some((name, policy)) = self.route(origin) else {
            return Ok(());
        };
        let all = needed(origin, (name, policy));
        let Some(needed) = all.into_iter().find(|needed| needed.is_lazy) else {
            return Ok(());
        };
        let mut known = self.dead_letters.lock().await;
        if known.contains(&needed.topic) {
            return Ok(());
        }
        let topic = needed.topic.clone();
        let at_once = Needed {
            is_lazy: false,
            ..needed
        };
        self.create_missing(&[at_once]).await?;
        known.insert(topic);
        Ok(())
    }

    fn route(&self, topic: &str) -> Option<(&TopicName, &Policy)> {
        let found = self.routing.find_main(topic)?;
        let (name, policy) = self.routes.get(found.index)?;
        Some((name, policy))
    }

    async fn create_missing(&self, needed: &[Needed<'_>]) -> Result<(), StartError> {
        let listed = self.list().await?;
        let there = needed
            .iter()
            .filter(|needed| listed.contains_key(needed.topic.as_str()));
        let asked = there.map(|needed| needed.topic.as_str());
        let asked = asked.chain(needed.iter().map(|needed| needed.origin));
        let retentions = retention::describe(&self.admin, asked).await;
        for needed in needed {
            let origin = retentions.get(needed.origin);
            let required_ms = retention::required_ms(&needed.policy.dead_letters, needed.kept, origin);
            let partitions = listed.get(needed.origin).map_or(1, |topic| topic.partitions);
            match listed.get(needed.topic.as_str()) {
                Some(found) => {
                    if needed.kept == Kept::Held && found.partitions < partitions {
                        self.widen(&needed.topic, needed.origin, partitions).await?;
                    }
                    if let Some(found) = retentions.get(&*needed.topic) {
                        found.warn(&needed.topic, needed.origin, required_ms);
                    }
                }
                None if !needed.policy.dead_letters.create => {
                    return Err(StartError::NoLetterTopic {
                        topic: needed.topic.clone(),
                        origin: needed.origin.to_owned(),
                    });
                }
                None if needed.is_lazy => {}
                None => self.create(needed, partitions, required_ms).await?,
            }
        }
        Ok(())
    }

    /// Adds partitions to a held-keys topic: held records are in the partition with the number of their own.
    async fn widen(&self, topic: &str, origin: &str, partitions: usize) -> Result<(), StartError> {
        let total = NewPartitions::increase_to(i32::try_from(partitions).unwrap_or(i32::MAX));
        let widened = self.admin.create_partitions([(topic, total)]).await;
        match widened.into_values().next() {
            // Another instance was faster.
            Some(Err(error)) if error.code() != Some(ErrorCode::InvalidPartitions) => Err(StartError::NotCreated {
                topic: topic.to_owned(),
                origin: origin.to_owned(),
                error,
            }),
            _ => Ok(()),
        }
    }

    /// The dead letter topics of all topics that are read, whether they exist or not.
    pub(crate) async fn dead_letter_topics(&self) -> BTreeSet<String> {
        let ready = self.ready.lock().await;
        let all = ready
            .iter()
            .filter_map(|origin| Some(needed(origin, self.route(origin)?)));
        let dead = all.flatten().filter(|needed| needed.kept == Kept::DeadLetters);
        dead.map(|needed| needed.topic).collect()
    }

    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Creates a topic whose records are deleted by time only: no compaction, and no bound of bytes.
    async fn create(&self, needed: &Needed<'_>, partitions: usize, retention_ms: i64) -> Result<(), StartError> {
        let (topic, origin) = (needed.topic.as_str(), needed.origin);
        let new = NewTopic::new(topic)
            .partitions(i32::try_from(partitions).unwrap_or(1))
            .config("cleanup.policy", Retention::DELETE)
            .config("retention.bytes", "-1")
            .config("retention.ms", retention_ms.to_string());
        let created = self.admin.create_topics([new]).await.into_values().next();
        match created {
            None | Some(Ok(_)) => {
                tracing::info!(
                    event = "topic_created",
                    topic,
                    partitions,
                    retention_ms,
                    "created topic {topic} for failure records of {origin}"
                );
                Ok(())
            }
            Some(Err(error)) if exists(&error) => Ok(()),
            Some(Err(error)) => Err(StartError::NotCreated {
                topic: topic.to_owned(),
                origin: origin.to_owned(),
                error,
            }),
        }
    }
}

/// The failure topics of a topic.
fn needed<'a>(origin: &'a str, (name, policy): (&TopicName, &'a Policy)) -> Vec<Needed<'a>> {
    let keeps_order = policy.retry.ordering == RetryOrdering::HoldKey;
    let a_topic = |topic, kept| Needed {
        topic,
        origin,
        policy,
        kept,
        is_lazy: false,
    };
    let mut needed = vec![];
    if keeps_order {
        needed.push(a_topic(held_topic(origin), Kept::Held));
    } else {
        let delays = policy.retry.topics.iter().copied().map(millis);
        needed.extend(delays.map(|delay_ms| a_topic(retry_topic(origin, delay_ms), Kept::Retry { delay_ms })));
    }
    if policy.exhausted == Exhausted::DeadLetter {
        let own = policy.dead_letters.topic.clone();
        // Of hundreds of topics that a pattern matches, few will ever have a dead letter.
        let is_lazy = name.is_pattern() && own.is_none();
        let topic = own.unwrap_or_else(|| dead_letter_topic(origin));
        needed.push(Needed {
            is_lazy,
            ..a_topic(topic, Kept::DeadLetters)
        });
    }
    needed
}

/// Another instance was faster.
fn exists(error: &AdminError) -> bool {
    error.code() == Some(ErrorCode::TopicAlreadyExists)
}

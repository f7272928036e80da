//! The topics that an application needs besides those it reads: for retries and for dead letters.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_client::{
    admin::{Admin, AdminError, NewPartitions, NewTopic},
    consumer::ErrorCode,
};
use tokio::sync::Mutex;

use crate::{
    clock::millis,
    error::StartError,
    policy::{DeadLetters, Exhausted, Policy, RetryOrdering},
    route::Route,
    topics::{TopicName, dead_letter_topic, held_topic, retry_topic},
};

/// Finds and makes topics.
#[derive(Debug)]
pub(crate) struct Setup {
    admin: Admin,
    routes: Vec<(TopicName, Policy)>,
    /// Topics whose letters have a place.
    ready: Mutex<BTreeSet<String>>,
}

impl Setup {
    pub(crate) fn new(admin: Admin, routes: &[Route]) -> Self {
        let routes = routes.iter().map(|route| (route.topics.clone(), route.policy.clone()));
        Self {
            admin,
            routes: routes.collect(),
            ready: Mutex::default(),
        }
    }

    /// Looks whether all topics that are named exist, and makes what is missing for letters.
    pub(crate) async fn check(&self, may_be_missing: bool) -> Result<(), StartError> {
        let listed = self.admin.list_topics().await.map_err(StartError::Topics)?;
        for (name, _) in &self.routes {
            let matching = listed.keys().filter(|topic| name.captures(topic).is_some());
            let matching: Vec<String> = matching.map(ToString::to_string).collect();
            if matching.is_empty() && !name.is_pattern() && !may_be_missing {
                let topic = name.text().to_owned();
                return Err(StartError::NoTopic { topic });
            }
            for topic in matching {
                self.letter_topics(&topic).await?;
            }
        }
        Ok(())
    }

    /// The topics there are that these routes read.
    pub(crate) async fn matching(&self, routes: &[Route]) -> Result<BTreeSet<String>, StartError> {
        let listed = self.admin.list_topics().await.map_err(StartError::Topics)?;
        let is_read = |topic: &&ByteString| routes.iter().any(|route| route.topics.captures(topic).is_some());
        Ok(listed.keys().filter(is_read).map(ToString::to_string).collect())
    }

    /// Makes what is missing for the letters of a topic.
    pub(crate) async fn letter_topics(&self, topic: &str) -> Result<(), StartError> {
        let mut ready = self.ready.lock().await;
        if ready.contains(topic) {
            return Ok(());
        }
        // A topic that no handler reads is one for letters itself.
        let route = self.routes.iter().find(|(name, _)| name.captures(topic).is_some());
        if let Some((_, policy)) = route {
            self.make_missing(topic, policy).await?;
        }
        ready.insert(topic.to_owned());
        Ok(())
    }

    async fn make_missing(&self, origin: &str, policy: &Policy) -> Result<(), StartError> {
        let keeps_order = policy.retry.ordering == RetryOrdering::FenceKey;
        let delays = policy.retry.topics.iter().filter(|_| !keeps_order);
        let mut needed: Vec<String> = delays.map(|delay| retry_topic(origin, millis(*delay))).collect();
        if keeps_order {
            needed.push(held_topic(origin));
        }
        if policy.exhausted == Exhausted::DeadLetter {
            let own = policy.dead_letters.topic.clone();
            needed.push(own.unwrap_or_else(|| dead_letter_topic(origin)));
        }
        let listed = self.admin.list_topics().await.map_err(StartError::Topics)?;
        needed.retain(|topic| !listed.contains_key(topic.as_str()));
        let partitions = listed.get(origin).map_or(1, |topic| topic.partitions);
        let held = listed.get(held_topic(origin).as_str()).filter(|_| keeps_order);
        if held.is_some_and(|held| held.partitions < partitions) {
            self.widen(&held_topic(origin), origin, partitions).await?;
        }
        for topic in needed {
            let letters = &policy.dead_letters;
            if !letters.create {
                let origin = origin.to_owned();
                return Err(StartError::NoLetterTopic { topic, origin });
            }
            self.create(&topic, origin, partitions, letters).await?;
        }
        Ok(())
    }

    /// What is held of a partition is in the partition of the same number, so there must be one.
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

    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    async fn create(
        &self,
        topic: &str,
        origin: &str,
        partitions: usize,
        letters: &DeadLetters,
    ) -> Result<(), StartError> {
        let new = NewTopic::new(topic)
            .partitions(i32::try_from(partitions).unwrap_or(1))
            .config("retention.ms", millis(letters.retention).to_string());
        let created = self.admin.create_topics([new]).await.into_values().next();
        match created {
            None | Some(Ok(_)) => {
                tracing::info!(topic, partitions, "a topic for letters was made");
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

/// Another instance was faster.
fn exists(error: &AdminError) -> bool {
    error.code() == Some(ErrorCode::TopicAlreadyExists)
}

//! Read access to a running application, shared by its handle and its endpoint.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use milena_client::{metrics::Metrics, producer::Producer};

use crate::{
    background::BackgroundView,
    dead_letters::DeadLetterCounts,
    driver::{Engine, Started},
    metrics::{self, HandlerCounts},
    request_reply::{self, Requester},
    status::Status,
    times::ConsumerTimes,
};

/// Engines of an application, for reading.
pub(crate) struct View {
    engines: Vec<Arc<Engine>>,
    producers: Vec<Producer>,
    background: Vec<BackgroundView>,
    dead_letters: Mutex<DeadLetterCounts>,
    requesters: Vec<Requester>,
}

impl View {
    pub(crate) fn new(started: &[Started], background: Vec<BackgroundView>, requesters: Vec<Requester>) -> Self {
        Self {
            engines: started.iter().map(|started| Arc::clone(&started.engine)).collect(),
            producers: started.iter().map(|started| started.producer.clone()).collect(),
            background,
            dead_letters: Mutex::default(),
            requesters,
        }
    }

    pub(crate) fn counts(&self) -> Vec<HandlerCounts> {
        self.engines.iter().flat_map(|engine| engine.counts()).collect()
    }

    pub(crate) fn times(&self) -> Vec<ConsumerTimes> {
        let engines = self.engines.iter();
        engines.flat_map(|engine| engine.consumer_times()).collect()
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = Status {
            has_joined: true,
            ..Status::default()
        };
        for (engine, producer) in self.engines.iter().zip(&self.producers) {
            let before = status.partitions.len();
            engine.add_status(&mut status);
            let partitions = status.partitions.iter_mut().skip(before);
            let mut publishing = partitions.filter(|partition| partition.is_publishing()).peekable();
            if publishing.peek().is_some() {
                let problem = publish_problem(producer);
                publishing.for_each(|partition| partition.publish_problem.clone_from(&problem));
            }
        }
        status.background = self.background.iter().map(BackgroundView::status).collect();
        let failure = self.background.iter().find_map(BackgroundView::failure);
        status.failure = status.failure.or_else(|| failure.map(|failure| failure.to_string()));
        // Engines may share breakers; each is listed once.
        let mut names = BTreeSet::new();
        status.breakers.retain(|breaker| names.insert(breaker.name.clone()));
        status
    }

    /// Number of dead letters as of the last count.
    pub(crate) fn dead_letters(&self) -> DeadLetterCounts {
        let counts = self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    pub(crate) fn set_dead_letters(&self, counts: DeadLetterCounts) {
        *self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    /// Metrics of all clients, under Kafka's names and with the tag `group`.
    fn client_metrics(&self) -> Metrics {
        let consumers = self.engines.iter().flat_map(|engine| engine.consumer_metrics());
        let producers = self.producers.iter().zip(&self.engines);
        let producers = producers.map(|(producer, engine)| (engine.group.to_string(), producer.metrics()));
        let mut all = Metrics::default();
        for (group, mut metrics) in consumers.chain(producers) {
            metrics.add_tag("group", &group);
            all.extend(metrics);
        }
        all
    }

    pub(crate) fn to_prometheus(&self) -> String {
        let mut text = metrics::to_prometheus(&self.counts(), &self.times(), &self.status());
        self.dead_letters().write(&mut text);
        self.background
            .iter()
            .for_each(|view| view.task.write_metrics(&mut text));
        let requesters = self.requesters.iter();
        let requesters = requesters.map(|one| (one.reply_partition().to_string(), one.counts()));
        request_reply::write_metrics(&mut text, &requesters.collect::<Vec<_>>());
        text.push_str(&self.client_metrics().to_prometheus());
        text
    }
}

/// Returns the reasons why writes of a producer may not be acknowledged, if there are any.
fn publish_problem(producer: &Producer) -> Option<String> {
    let topics = producer.unavailable_topics();
    let topics = topics.iter().map(ToString::to_string);
    let brokers = producer.unreachable_brokers();
    let brokers = brokers.iter().map(|broker| format!("broker {broker}"));
    let problems: Vec<String> = topics.chain(brokers).collect();
    (!problems.is_empty()).then(|| problems.join(", "))
}

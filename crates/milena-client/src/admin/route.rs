//! Routing: the broker that serves an item.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, metadata_request::MetadataRequestTopic,
    },
};

use super::{
    Admin,
    error::{Failure, check},
};
use crate::{
    coordinator::CoordinatorKind,
    metadata::{Broker, MetadataCache, MetadataError, VERSION_MIN},
    net::{CallError, Connection, Role, SendOptions},
};

/// The broker that serves an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Any broker, preferably a responsive one.
    Any,
    /// The controller, or the broker that forwards to it.
    Controller,
    Broker(i32),
    Leader(TopicPartition),
    /// The coordinator of this group.
    Group(ByteString),
    /// The coordinator of this transactional id.
    Transaction(ByteString),
}

/// The results of lookups for an attempt.
#[derive(Default)]
struct Lookups {
    topics: Option<Result<MetadataCache, Failure>>,
    groups: BTreeMap<ByteString, Result<Broker, Failure>>,
    transactions: BTreeMap<ByteString, Result<Broker, Failure>>,
}

impl Admin {
    /// Looks up the broker of each item, and returns its connection.
    pub(super) async fn locate<K>(
        &self,
        routes: impl Iterator<Item = (K, Route)>,
        deadline_ms: i64,
    ) -> Vec<(K, Result<Connection, Failure>)> {
        let routes: Vec<(K, Route)> = routes.collect();
        let mut topics = BTreeSet::new();
        let mut groups = BTreeSet::new();
        let mut transactions = BTreeSet::new();
        let mut needs_cluster = false;
        for (_, route) in &routes {
            match route {
                Route::Any => {}
                Route::Controller | Route::Broker(_) => needs_cluster = true,
                Route::Leader(partition) => drop(topics.insert(partition.topic.clone())),
                Route::Group(group) => drop(groups.insert(group.clone())),
                Route::Transaction(id) => drop(transactions.insert(id.clone())),
            }
        }
        if needs_cluster {
            self.wait_for_cluster(deadline_ms).await;
        }
        let mut found = Lookups::default();
        if !topics.is_empty() {
            found.topics = Some(self.request_topics(topics, deadline_ms).await);
        }
        if !groups.is_empty() {
            found.groups = self.find(CoordinatorKind::Group, groups, deadline_ms).await;
        }
        if !transactions.is_empty() {
            found.transactions = self.find(CoordinatorKind::Transaction, transactions, deadline_ms).await;
        }
        let any = self.inner.metadata.any_broker();
        let locate = |(key, route)| {
            let connection = self.choose(&route, any.as_ref(), &found);
            (key, connection)
        };
        routes.into_iter().map(locate).collect()
    }

    fn choose(&self, route: &Route, any: Option<&Connection>, found: &Lookups) -> Result<Connection, Failure> {
        let cluster = self.inner.metadata.cache();
        let broker = match route {
            Route::Any => return any.cloned().ok_or(Failure::Call(CallError::Closed)),
            Route::Controller => match cluster.controller() {
                Some(broker) => broker.clone(),
                None => return Err(self.no_node("the controller is not known")),
            },
            Route::Broker(id) => match cluster.broker(*id) {
                Some(broker) => broker.clone(),
                None if cluster.brokers().len() == 0 => return Err(self.no_node("no broker is known")),
                None => return Err(Failure::NoBroker(*id)),
            },
            Route::Leader(partition) => match &found.topics {
                Some(Ok(topics)) => leader(topics, partition)?,
                Some(Err(failure)) => return Err(failure.clone()),
                None => return Err(Failure::MissingInResponse),
            },
            Route::Group(group) => found.groups.get(group).cloned().ok_or(Failure::MissingInResponse)??,
            Route::Transaction(id) => found
                .transactions
                .get(id)
                .cloned()
                .ok_or(Failure::MissingInResponse)??,
        };
        Ok(self.connection(&broker))
    }

    fn connection(&self, broker: &Broker) -> Connection {
        let connections = self.inner.metadata.connections();
        connections.node(broker.id, Role::Data, &broker.endpoint())
    }

    fn no_node(&self, why: &str) -> Failure {
        Failure::NoNode(match self.inner.metadata.last_error() {
            Some(MetadataError::Call(error @ CallError::Authentication(_))) => return Failure::Call(error),
            Some(failure) => format!("{why}: {failure}"),
            None => why.to_owned(),
        })
    }

    /// Waits for the first metadata.
    pub(super) async fn wait_for_cluster(&self, deadline_ms: i64) {
        let metadata = &self.inner.metadata;
        let authentication = metadata.connections().authentication();
        let refusals = authentication.last();
        loop {
            let cluster = metadata.cache();
            if cluster.brokers().len() > 0 {
                return;
            }
            let updated = metadata.updated_past(cluster.version);
            let updated = async {
                tokio::select! {
                    biased;
                    updated = updated => updated,
                    _ = authentication.refused_after(refusals) => false,
                }
            };
            if self.in_time(updated, deadline_ms).await != Some(true) {
                return;
            }
        }
    }

    /// Requests the metadata of these topics once.
    async fn request_topics(&self, topics: BTreeSet<ByteString>, deadline_ms: i64) -> Result<MetadataCache, Failure> {
        let topics = topics.into_iter().map(|name| MetadataRequestTopic {
            name: Some(name),
            ..Default::default()
        });
        let request = MetadataRequest {
            topics: Some(topics.collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let connection = self.inner.metadata.any_broker();
        let connection = connection.ok_or(Failure::Call(CallError::Closed))?;
        let options = SendOptions::timeout_ms(self.request_timeout_ms(deadline_ms)).version_min(VERSION_MIN);
        let response = connection.call(request, options);
        let response = self.in_time(response, deadline_ms).await.ok_or(Failure::NoResponse)?;
        let response = response.map_err(Failure::Call)?;
        Ok(MetadataCache::of(&response.body, response.version))
    }

    /// Looks up coordinators once.
    async fn find(
        &self,
        kind: CoordinatorKind,
        keys: BTreeSet<ByteString>,
        deadline_ms: i64,
    ) -> BTreeMap<ByteString, Result<Broker, Failure>> {
        let Some(connection) = self.inner.metadata.any_broker() else {
            let closed = |key| (key, Err(Failure::Call(CallError::Closed)));
            return keys.into_iter().map(closed).collect();
        };
        let options = SendOptions::timeout_ms(self.request_timeout_ms(deadline_ms));
        let key_type = match kind {
            CoordinatorKind::Group => 0,
            CoordinatorKind::Transaction => 1,
        };
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: keys.iter().cloned().collect(),
            ..Default::default()
        };
        let response = connection.call(request, options.version_min(versions::find_coordinator::COORDINATORS));
        match self.in_time(response, deadline_ms).await {
            Some(Ok(response)) => return several(&keys, &response.body),
            Some(Err(CallError::UnsupportedVersion { .. })) => {}
            failed => {
                let failure = failed.and_then(Result::err).map_or(Failure::NoResponse, Failure::Call);
                return keys.into_iter().map(|key| (key, Err(failure.clone()))).collect();
            }
        }
        let mut found = BTreeMap::new();
        for key in keys {
            let request = FindCoordinatorRequest {
                key: key.clone(),
                key_type,
                ..Default::default()
            };
            let response = connection.call(
                request,
                options.version_max(versions::find_coordinator::COORDINATORS - 1),
            );
            let response = self.in_time(response, deadline_ms).await.ok_or(Failure::NoResponse);
            let response = response.and_then(|response| response.map_err(Failure::Call));
            found.insert(key, response.and_then(|response| single(&response.body)));
        }
        found
    }

    async fn in_time<T>(&self, response: impl Future<Output = T>, deadline_ms: i64) -> Option<T> {
        tokio::select! {
            biased;
            response = response => Some(response),
            () = self.inner.io.sleep_until(deadline_ms) => None,
        }
    }
}

fn leader(topics: &MetadataCache, partition: &TopicPartition) -> Result<Broker, Failure> {
    if let Some(code) = topics.topic_error(&partition.topic) {
        return Err(Failure::refused(code));
    }
    let TopicPartition {
        topic,
        partition: number,
    } = partition;
    let Some(known) = topics.partition(topic, *number) else {
        return Err(Failure::refused(ErrorCode::UnknownTopicOrPartition));
    };
    let leader = topics.leader(topic, *number).map(|leader| leader.broker.clone());
    leader.ok_or_else(|| match known.error {
        ErrorCode::None => Failure::refused(ErrorCode::LeaderNotAvailable),
        code => Failure::refused(code),
    })
}

fn several(
    keys: &BTreeSet<ByteString>,
    response: &FindCoordinatorResponse,
) -> BTreeMap<ByteString, Result<Broker, Failure>> {
    let found = response.coordinators.iter().filter_map(|found| {
        let key = keys.get(&found.key)?.clone();
        let broker = Broker::new(found.node_id, &found.host, found.port, None);
        let checked = check(found.error_code, found.error_message.as_deref()).map_err(Failure::Refused);
        Some((
            key,
            checked.and_then(|()| broker.ok_or_else(|| Failure::refused(ErrorCode::CoordinatorNotAvailable))),
        ))
    });
    found.collect()
}

fn single(response: &FindCoordinatorResponse) -> Result<Broker, Failure> {
    check(response.error_code, response.error_message.as_deref()).map_err(Failure::Refused)?;
    let broker = Broker::new(response.node_id, &response.host, response.port, None);
    broker.ok_or_else(|| Failure::refused(ErrorCode::CoordinatorNotAvailable))
}

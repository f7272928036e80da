//! Calls of the admin client: items are grouped by broker, each broker gets one request for its items, and failures
//! that can be retried are, until the deadline.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use milena_machines::{Random, backoff::Backoff};
use milena_wire::{
    errors::ErrorCode,
    message::{Request, VersionRange},
};
use tokio::sync::mpsc;

use super::{
    Admin, AdminError, Results,
    error::{BrokerError, Failure},
    route::Route,
};
use crate::{
    consumer::Node,
    io,
    metadata::Refresh,
    net::{ApiResponse, CallError, Connection, SendOptions, Throttled},
};

/// Attempts before an unknown topic or broker is an error. A new one is not known everywhere at once.
const UNKNOWN_ATTEMPTS: u32 = 5;

/// The results in a response, by item; or one error for all items.
pub(super) type ItemResults<K, V> = Result<Vec<(K, Result<V, BrokerError>)>, BrokerError>;

/// The key of an item in a call.
pub(super) trait Item: Ord + Clone + fmt::Display + Send + Sync + 'static {}
impl<T: Ord + Clone + fmt::Display + Send + Sync + 'static> Item for T {}

/// The items of one request.
pub(super) struct Batch<K> {
    pub(super) keys: Vec<K>,
    pub(super) version: i16,
    /// The time limit of the broker.
    pub(super) timeout_ms: i32,
}

/// The items of a request, and the broker that responded.
pub(super) struct CallContext<K> {
    pub(super) keys: Vec<K>,
    pub(super) version: i16,
    pub(super) node: Node,
}

impl<K: Clone> CallContext<K> {
    /// The same value for every item.
    pub(super) fn all<V: Clone>(&self, value: &V) -> ItemResults<K, V> {
        Ok(self.keys.iter().map(|key| (key.clone(), Ok(value.clone()))).collect())
    }
}

type Build<K, R> = dyn Fn(&Batch<K>) -> R + Send + Sync;
type Reader<K, V, T> = dyn Fn(&CallContext<K>, T) -> ItemResults<K, V> + Send + Sync;

/// A kind of call: how items are routed, requested, and read from responses.
pub(super) struct AdminCall<K, V, R: Request> {
    /// The noun for items in messages.
    noun: &'static str,
    route: Box<dyn Fn(&K) -> Route + Send + Sync>,
    build: Arc<Build<K, R>>,
    read: Box<Reader<K, V, R::Response>>,
    versions: VersionRange,
    /// Whether a request can have only one item.
    one_by_one: bool,
    /// Errors that are not retried, although they are retriable in general.
    finals: &'static [ErrorCode],
}

impl<K, V, R> AdminCall<K, V, R>
where
    K: Item,
    R: Request + 'static,
    R::Response: Throttled + Send,
{
    pub(super) fn new(
        noun: &'static str,
        route: impl Fn(&K) -> Route + Send + Sync + 'static,
        build: impl Fn(&Batch<K>) -> R + Send + Sync + 'static,
        read: impl Fn(&CallContext<K>, R::Response) -> ItemResults<K, V> + Send + Sync + 'static,
    ) -> Self {
        Self {
            noun,
            route: Box::new(route),
            build: Arc::new(build),
            read: Box::new(read),
            versions: VersionRange::new(0, i16::MAX),
            one_by_one: false,
            finals: &[],
        }
    }

    pub(super) fn version_min(mut self, version: i16) -> Self {
        self.versions.min = version;
        self
    }

    pub(super) fn version_max(mut self, version: i16) -> Self {
        self.versions.max = version;
        self
    }

    pub(super) fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    pub(super) fn finals(mut self, codes: &'static [ErrorCode]) -> Self {
        self.finals = codes;
        self
    }

    fn item(&self, key: &K) -> String {
        match self.noun {
            "" => key.to_string(),
            noun => format!("{noun} {key}"),
        }
    }

    fn may_retry(&self, failure: &Failure, attempts: u32) -> bool {
        match failure {
            Failure::Refused(BrokerError { code, .. }) if self.finals.contains(code) => false,
            Failure::Refused(BrokerError { code, .. }) => match code {
                ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => attempts < UNKNOWN_ATTEMPTS,
                code => code.is_retriable(),
            },
            Failure::Call(error) => error.is_retriable(),
            // A new broker is not known everywhere at once.
            Failure::NoBroker(_) => attempts < UNKNOWN_ATTEMPTS,
            Failure::NoNode(_) | Failure::NoResponse => true,
            Failure::MissingInResponse => false,
        }
    }

    /// The result of a response for each item of the request.
    fn outcomes(
        &self,
        mut context: CallContext<K>,
        result: Result<ApiResponse<R::Response>, CallError>,
    ) -> impl Iterator<Item = (K, Result<V, Failure>)> {
        let read = result.map(|response| {
            context.version = response.version;
            (self.read)(&context, response.body)
        });
        let keys = context.keys;
        let (results, otherwise) = match read {
            Ok(Ok(results)) => (results, Failure::MissingInResponse),
            Ok(Err(error)) => (vec![], Failure::Refused(error)),
            Err(error) => (vec![], Failure::Call(error)),
        };
        let mut results: BTreeMap<K, Result<V, BrokerError>> = results.into_iter().collect();
        keys.into_iter().map(move |key| {
            let outcome = match results.remove(&key) {
                Some(outcome) => outcome.map_err(Failure::Refused),
                None => Err(otherwise.clone()),
            };
            (key, outcome)
        })
    }
}

/// Items without a result, each with its last failure.
type Pending<K> = BTreeMap<K, Option<Failure>>;

impl Admin {
    /// Sends requests until there is a result for each item, or the deadline passes.
    pub(super) async fn call<K, V, R>(
        &self,
        call: AdminCall<K, V, R>,
        keys: impl IntoIterator<Item = K>,
    ) -> Results<K, V>
    where
        K: Item,
        R: Request + 'static,
        R::Response: Throttled + Send,
    {
        let deadline_ms = io::now_ms().saturating_add(self.timeout_ms);
        let mut pending: Pending<K> = keys.into_iter().map(|key| (key, None)).collect();
        let mut results = Results::new();
        let mut attempts = 0;
        let mut random = Random::new(RandomState::new().hash_one(attempts));
        let config = &self.inner.config;
        let backoff = Backoff::new(config.retry_backoff_ms, config.retry_backoff_max_ms);
        while !pending.is_empty() {
            let outcomes = self.attempt(&call, &pending, deadline_ms).await;
            attempts += 1;
            for (key, outcome) in outcomes {
                match outcome {
                    Ok(value) => {
                        pending.remove(&key);
                        results.insert(key, Ok(value));
                    }
                    Err(failure) if call.may_retry(&failure, attempts) && attempts <= config.retries => {
                        self.note(&failure);
                        remember(&mut pending, key, failure);
                    }
                    Err(failure) => {
                        pending.remove(&key);
                        results.insert(key.clone(), Err(failure.into_error(call.item(&key))));
                    }
                }
            }
            let again_ms = io::now_ms().saturating_add(backoff.after_ms(attempts, &mut random));
            if pending.is_empty() || again_ms >= deadline_ms {
                break;
            }
            self.inner.io.sleep_until(again_ms).await;
        }
        results.extend(pending.into_iter().map(|(key, failure)| {
            let error = AdminError::TimedOut {
                item: call.item(&key),
                timeout_ms: self.timeout_ms,
                cause: self.cause(failure),
            };
            (key, Err(error))
        }));
        results
    }

    /// Like [`Admin::call`], for one item.
    pub(super) async fn call_one<K, V, R>(&self, call: AdminCall<K, V, R>, key: K) -> Result<V, AdminError>
    where
        K: Item,
        R: Request + 'static,
        R::Response: Throttled + Send,
    {
        let item = call.item(&key);
        let mut results = self.call(call, [key]).await;
        let result = results.pop_first().map(|(_, result)| result);
        result.unwrap_or_else(|| Err(Failure::MissingInResponse.into_error(item)))
    }

    /// Sends one request to each broker.
    async fn attempt<K, V, R>(
        &self,
        call: &AdminCall<K, V, R>,
        pending: &Pending<K>,
        deadline_ms: i64,
    ) -> Vec<(K, Result<V, Failure>)>
    where
        K: Item,
        R: Request + 'static,
        R::Response: Throttled + Send,
    {
        let located = self
            .locate(pending.keys().map(|key| (key.clone(), (call.route)(key))), deadline_ms)
            .await;
        let mut outcomes = vec![];
        let (done, mut responses) = mpsc::unbounded_channel();
        for (connection, keys) in batches(located, call.one_by_one, &mut outcomes) {
            let timeout_ms = self.request_timeout_ms(deadline_ms);
            let (build, requested, done) = (Arc::clone(&call.build), keys.clone(), done.clone());
            let build = move |version| {
                build(&Batch {
                    keys: requested,
                    version,
                    timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
                })
            };
            let options = SendOptions {
                timeout_ms: Some(timeout_ms),
                versions: call.versions,
            };
            let context = CallContext {
                keys,
                version: 0,
                node: node(&connection),
            };
            connection.send_built(build, options, move |result| {
                // The caller may have dropped the call.
                let _ = done.send((context, result));
            });
        }
        drop(done);
        let mut deadline = std::pin::pin!(self.inner.io.sleep_until(deadline_ms));
        loop {
            tokio::select! {
                biased;
                response = responses.recv() => match response {
                    Some((context, result)) => outcomes.extend(call.outcomes(context, result)),
                    None => return outcomes,
                },
                // Items without a response stay without a result.
                () = &mut deadline => return outcomes,
            }
        }
    }

    /// The timeout of a request that is sent now.
    pub(super) fn request_timeout_ms(&self, deadline_ms: i64) -> i64 {
        let left_ms = deadline_ms.saturating_sub(io::now_ms());
        left_ms.min(i64::from(self.inner.config.request_timeout_ms)).max(1)
    }

    /// The cause of a timeout. If the failure says little, the state of the connections may explain it.
    fn cause(&self, failure: Option<Failure>) -> Option<String> {
        let telling = failure.as_ref().filter(|failure| !failure.is_uninformative());
        let cluster = || self.inner.metadata.last_error().map(|error| error.to_string());
        let last = || failure.as_ref().and_then(Failure::cause);
        telling.and_then(Failure::cause).or_else(cluster).or_else(last)
    }

    /// Requests new metadata if a failure shows that it is stale.
    fn note(&self, failure: &Failure) {
        let stale = match failure {
            Failure::Refused(error) => error.code == ErrorCode::NotController || error.code.invalidates_metadata(),
            Failure::NoNode(_) | Failure::NoBroker(_) => true,
            // A lost connection requests new metadata itself.
            _ => false,
        };
        if stale {
            self.inner.metadata.request_update(Refresh::Stale);
        }
    }
}

/// Keeps the failure, unless it only says that time ran out: the failure before explains more.
fn remember<K: Item>(pending: &mut Pending<K>, key: K, failure: Failure) {
    let last = pending.entry(key).or_default();
    if last.is_none() || !failure.is_uninformative() {
        *last = Some(failure);
    }
}

fn node(connection: &Connection) -> Node {
    Node {
        id: connection.node_id(),
        host: connection.endpoint().host.clone(),
        port: connection.endpoint().port,
        rack: None,
    }
}

/// Groups the items by broker. Items without a broker get their result in `outcomes`.
fn batches<K, V>(
    located: Vec<(K, Result<Connection, Failure>)>,
    one_by_one: bool,
    outcomes: &mut Vec<(K, Result<V, Failure>)>,
) -> Vec<(Connection, Vec<K>)> {
    let mut batches: Vec<(Connection, Vec<K>)> = vec![];
    let mut indexes: BTreeMap<i32, usize> = BTreeMap::new();
    for (key, connection) in located {
        let connection = match connection {
            Ok(connection) => connection,
            Err(failure) => {
                outcomes.push((key, Err(failure)));
                continue;
            }
        };
        let index = indexes.get(&connection.node_id()).filter(|_| !one_by_one);
        match index.and_then(|index| batches.get_mut(*index)) {
            Some((_, keys)) => keys.push(key),
            None => {
                indexes.insert(connection.node_id(), batches.len());
                batches.push((connection, vec![key]));
            }
        }
    }
    batches
}

//! Metrics that clients push (KIP-714): the subscription of each client, and when it may push.
//!
//! Nothing here reads a clock or a socket. The number of clients is bounded: beyond it, the one that was silent for longest
//! is removed, and gets a new subscription with its next request.

use std::{collections::HashMap, fmt, sync::Arc};

use bytestring::ByteString;
use milena_wire::{Uuid, compression::Codec, errors::ErrorCode};
use regex::Regex;

use crate::config::{BrokerConfig, INTERVAL_MS_DEFAULT, compile};

/// The subscription to all metrics.
const ALL_METRICS: &str = "*";

/// Receives the metrics that clients push.
///
/// Config resources of type `client-metrics` decide about metrics, interval and clients. Only a broker with a receiver and at
/// least one such resource advertises the two APIs of KIP-714. A client that was connected before the first resource was
/// created starts to push after it connects again.
pub trait TelemetryReceiver: fmt::Debug + Send + Sync {
    /// Receives one push. The client waits meanwhile, so this must not block for long.
    fn receive(&self, push: &TelemetryPush<'_>);
}

/// One push of one client.
#[derive(Debug, Clone, Copy)]
pub struct TelemetryPush<'a> {
    pub client: &'a TelemetryClient,
    /// Whether this is the last push of the client.
    pub terminating: bool,
    /// OpenTelemetry's `MetricsData` as protobuf, decompressed; at most `telemetry.max.bytes`.
    pub metrics: &'a [u8],
}

/// A client, with the properties that subscriptions match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryClient {
    pub instance_id: Uuid,
    pub client_id: ByteString,
    /// Empty if the client did not send it.
    pub software_name: ByteString,
    pub software_version: ByteString,
    pub source_address: String,
    pub source_port: u16,
}

/// The subscription of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) id: i32,
    pub(crate) metrics: Vec<ByteString>,
    pub(crate) interval_ms: i32,
}

/// A push in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Push {
    pub(crate) subscription_id: i32,
    pub(crate) terminating: bool,
    pub(crate) compression_type: i8,
    pub(crate) size: usize,
}

/// The known clients, each with its subscription.
#[derive(Debug)]
pub(crate) struct Telemetry {
    clients: HashMap<Uuid, Client>,
    /// `milena.max.client.metrics.instances`
    clients_max: usize,
    /// The configuration that the subscriptions of clients were made from.
    config: Option<Arc<BrokerConfig>>,
    selectors: Vec<Selector>,
    /// The number of changes of the subscriptions.
    version: u64,
}

#[derive(Debug)]
struct Selector {
    metrics: Vec<String>,
    interval_ms: i32,
    patterns: Vec<(String, Regex)>,
}

#[derive(Debug)]
struct Client {
    subscription: Subscription,
    version: u64,
    last_get_ms: Option<i64>,
    last_push_ms: Option<i64>,
    terminating: bool,
    last_error: ErrorCode,
}

impl Telemetry {
    pub(crate) fn new(clients_max: usize) -> Self {
        Self {
            clients: HashMap::new(),
            clients_max,
            config: None,
            selectors: vec![],
            version: 0,
        }
    }

    /// Returns the subscription of a client. A request before the end of the interval is throttled, unless the subscription has
    /// changed, or the last push was refused for a reason that needs a new subscription.
    pub(crate) fn subscribe(
        &mut self,
        config: &Arc<BrokerConfig>,
        client: &TelemetryClient,
        now_ms: i64,
    ) -> Result<Subscription, ErrorCode> {
        let state = self.client(config, client, now_ms);
        let last_ms = state.last_get_ms.max(state.last_push_ms);
        let must_ask = matches!(
            state.last_error,
            ErrorCode::UnknownSubscriptionId | ErrorCode::UnsupportedCompressionType
        );
        if !must_ask && !is_due(last_ms, state.subscription.interval_ms, now_ms) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        state.last_get_ms = Some(now_ms);
        state.last_error = ErrorCode::None;
        Ok(state.subscription.clone())
    }

    /// Checks that a client may push now; returns the codec of the metrics.
    pub(crate) fn push(
        &mut self,
        config: &Arc<BrokerConfig>,
        client: &TelemetryClient,
        push: Push,
        now_ms: i64,
    ) -> Result<Codec, ErrorCode> {
        let size_max = usize::try_from(config.telemetry_max_bytes).unwrap_or(0);
        let state = self.client(config, client, now_ms);
        let checked = state.check_push(push, size_max, now_ms);
        state.terminating |= push.terminating;
        state.last_error = checked.err().unwrap_or(ErrorCode::None);
        checked
    }

    /// The state of a client, with a subscription from the current configuration.
    fn client(&mut self, config: &Arc<BrokerConfig>, client: &TelemetryClient, now_ms: i64) -> &mut Client {
        self.follow(config);
        if !self.clients.contains_key(&client.instance_id) && self.clients.len() >= self.clients_max {
            self.forget(now_ms);
        }
        let (version, selectors) = (self.version, &self.selectors);
        let state = self.clients.entry(client.instance_id);
        let state = state.or_insert_with(|| Client::new(subscription(selectors, client), version));
        if state.version != version {
            *state = Client::new(subscription(selectors, client), version);
        }
        state
    }

    /// Applies the subscriptions if they have changed.
    fn follow(&mut self, config: &Arc<BrokerConfig>) {
        let is_known =
            |known: &Arc<BrokerConfig>| Arc::ptr_eq(known, config) || known.client_metrics == config.client_metrics;
        if self.config.as_ref().is_some_and(is_known) {
            return;
        }
        let selectors = config.client_metrics.values().map(|subscription| Selector {
            metrics: subscription.metrics.clone(),
            interval_ms: subscription.interval_ms,
            patterns: subscription
                .matches
                .iter()
                // Patterns were validated when they were set.
                .filter_map(|(selector, pattern)| Some((selector.clone(), compile(pattern).ok()?)))
                .collect(),
        });
        self.selectors = selectors.collect();
        self.config = Some(Arc::clone(config));
        self.version += 1;
    }

    /// Removes clients that have missed three intervals, or else the one that was silent for longest.
    fn forget(&mut self, now_ms: i64) {
        let heard_ms = |client: &Client| client.last_get_ms.max(client.last_push_ms).unwrap_or(i64::MIN);
        self.clients.retain(|_, client| {
            let patience_ms = i64::from(client.subscription.interval_ms).saturating_mul(3);
            now_ms.saturating_sub(heard_ms(client)) < patience_ms
        });
        if self.clients.len() >= self.clients_max {
            let oldest = self.clients.iter().min_by_key(|(_, client)| heard_ms(client));
            if let Some(id) = oldest.map(|(id, _)| *id) {
                self.clients.remove(&id);
            }
        }
    }
}

impl Client {
    fn new(subscription: Subscription, version: u64) -> Self {
        Self {
            subscription,
            version,
            last_get_ms: None,
            last_push_ms: None,
            terminating: false,
            last_error: ErrorCode::None,
        }
    }

    fn check_push(&mut self, push: Push, size_max: usize, now_ms: i64) -> Result<Codec, ErrorCode> {
        if self.terminating {
            return Err(ErrorCode::InvalidRequest);
        }
        // The first push after a subscription may come at once: clients add jitter themselves.
        let follows_get = self.last_get_ms > self.last_push_ms;
        let is_due = follows_get || is_due(self.last_push_ms, self.subscription.interval_ms, now_ms);
        if is_due {
            self.last_push_ms = Some(now_ms);
        } else if !push.terminating {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if push.subscription_id != self.subscription.id {
            return Err(ErrorCode::UnknownSubscriptionId);
        }
        let codec = u8::try_from(push.compression_type).ok().and_then(Codec::from_id);
        let codec = codec.ok_or(ErrorCode::UnsupportedCompressionType)?;
        if push.size > size_max {
            return Err(ErrorCode::TelemetryTooLarge);
        }
        Ok(codec)
    }
}

fn is_due(last_ms: Option<i64>, interval_ms: i32, now_ms: i64) -> bool {
    last_ms.is_none_or(|last_ms| now_ms.saturating_sub(last_ms) >= i64::from(interval_ms))
}

/// The union of the metrics that the subscriptions of a client name, at the shortest of their intervals.
fn subscription(selectors: &[Selector], client: &TelemetryClient) -> Subscription {
    let mut metrics: Vec<&String> = vec![];
    let mut interval_ms = INTERVAL_MS_DEFAULT;
    for selector in selectors.iter().filter(|selector| selector.selects(client)) {
        metrics.extend(&selector.metrics);
        interval_ms = interval_ms.min(selector.interval_ms);
    }
    metrics.sort_unstable();
    metrics.dedup();
    let all = metrics.iter().any(|metric| *metric == ALL_METRICS);
    let metrics: Vec<ByteString> = match all {
        true => vec![ALL_METRICS.into()],
        false => metrics.into_iter().map(|metric| metric.as_str().into()).collect(),
    };
    // A new subscription of the same client has another id, so that a push for the previous one is recognized.
    let text = format!("{metrics:?}{interval_ms}{}", client.instance_id);
    Subscription {
        id: crc32c::crc32c(text.as_bytes()).cast_signed(),
        metrics,
        interval_ms,
    }
}

impl Selector {
    fn selects(&self, client: &TelemetryClient) -> bool {
        self.patterns.iter().all(|(selector, pattern)| match selector.as_str() {
            "client_instance_id" => pattern.is_match(&client.instance_id.to_string()),
            "client_id" => pattern.is_match(&client.client_id),
            "client_software_name" => pattern.is_match(&client.software_name),
            "client_software_version" => pattern.is_match(&client.software_version),
            "client_source_address" => pattern.is_match(&client.source_address),
            "client_source_port" => pattern.is_match(&client.source_port.to_string()),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests;

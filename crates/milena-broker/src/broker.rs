//! The broker: start and shutdown.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use milena_http::Endpoint;
use milena_log::disk::{Disk, RealDisk};
use tokio::{sync::watch, task::JoinHandle as Task};

use crate::{
    auth::TokenVerifiers,
    config::{BrokerConfig, BrokerOverrides, ConfigError, ConfigMap, Listener, misfits},
    coordinators,
    data_dir::{DataDir, DataDirError},
    log_levels::LogLevels,
    maintenance,
    metadata_log::{MetadataError, MetadataLog, OnLoss},
    metrics,
    net::{self, BoundListener, Endpoints},
    node::{Node, NodeOptions},
    syncer::Syncer,
    telemetry::TelemetryReceiver,
    throttle::Throttle,
};

/// A broker that runs until it is shut down. It has no global state: a process may run a hundred.
///
/// Dropping it without [`Broker::shutdown`] is like killing it: acknowledged records are safe, but the next start has to
/// recover the logs.
#[derive(Debug)]
pub struct Broker {
    /// Of each listener.
    addresses: Vec<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    node: Arc<Node>,
    stop: watch::Sender<bool>,
    /// `None` after the shutdown.
    running: Option<Tasks>,
}

#[derive(Debug)]
struct Tasks {
    serving: Task<()>,
    maintenance: Task<()>,
    coordinators: Task<()>,
    certificates: Task<()>,
    /// `None` without a metrics endpoint.
    metrics: Option<Task<()>>,
    syncer: JoinHandle<()>,
}

/// Parts that the embedding program may provide, besides settings.
#[derive(Debug)]
pub struct Options {
    /// The disk for its files: the machine's own, one in memory, or one that injects faults.
    pub disk: Arc<dyn Disk>,
    /// Decides about throttle times of clients; without it no client is throttled.
    pub throttle: Option<Arc<dyn Throttle>>,
    /// The log levels of the process, for clients that describe or alter them; without it there are no loggers.
    pub log_levels: Option<Arc<dyn LogLevels>>,
    /// The receiver of metrics that clients push (KIP-714); without it clients push none.
    pub telemetry: Option<Arc<dyn TelemetryReceiver>>,
    /// The address of the metrics endpoint, such as `127.0.0.1:9464`; without it there is none. It serves `GET /metrics` in
    /// the text format of Prometheus, to anyone who can connect.
    pub metrics: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            throttle: None,
            log_levels: None,
            telemetry: None,
            metrics: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(
        "listener {listener} on {address} can be reached from other machines, and its clients need not log in; use an \
         address of this machine only, such as 127.0.0.1, or the protocol SASL_SSL, or SSL with ssl.client.auth=required; \
         to serve anyone who can connect, set milena.allow.unauthenticated=true"
    )]
    Unauthenticated { listener: String, address: SocketAddr },
    #[error("log.dirs must name exactly one directory")]
    NoDirectory,
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
    #[error("cannot serve metrics on {address}: {source}")]
    Metrics { address: String, source: io::Error },
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error("cannot open the topics: {0}")]
    Topics(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl Broker {
    /// Starts a broker with Kafka's settings, from a map, a file or arguments. Only `log.dirs` is required; a port of 0 lets
    /// the system choose.
    pub async fn start(settings: impl Into<ConfigMap>) -> Result<Self, StartError> {
        Self::start_with(Options::default(), settings).await
    }

    /// Like [`Broker::start`], with parts that are no settings.
    pub async fn start_with(options: Options, settings: impl Into<ConfigMap>) -> Result<Self, StartError> {
        let config = BrokerConfig::resolve(BrokerOverrides::fixed(settings))?;
        let [dir] = &config.log_dirs[..] else {
            return Err(StartError::NoDirectory);
        };
        let began = Instant::now();
        let on_loss = match config.accept_loss {
            true => OnLoss::Accept,
            false => OnLoss::Refuse,
        };
        let data_dir = DataDir::open(options.disk, Path::new(dir), on_loss)?;
        let listeners = bind_listeners(&config).await?;
        let addresses: Vec<SocketAddr> = listeners.iter().map(|listener| listener.address).collect();
        let metrics = bind_metrics(options.metrics).await?;
        let metrics_address = metrics.as_ref().map(Endpoint::address);
        let metadata = MetadataLog::open(
            data_dir.disk(),
            data_dir.path(),
            data_dir.evidence(),
            data_dir.on_loss(),
        )?;
        let config = with_run_time_settings(config, &metadata)?;
        let endpoints = Endpoints::open(&config, &listeners)?;
        let tokens = TokenVerifiers::start(&config).await?;
        data_dir.begin().map_err(|source| DataDirError::Io {
            path: data_dir.path().to_owned(),
            source,
        })?;
        let (syncer, syncer_thread) = Syncer::start().map_err(StartError::Thread)?;
        let options = NodeOptions {
            data_dir,
            endpoints,
            tokens,
            throttle: options.throttle,
            log_levels: options.log_levels,
            telemetry: options.telemetry,
        };
        let node =
            Node::open(config, options, metadata, syncer).map_err(|error| StartError::Topics(error.to_string()))?;
        let node = Arc::new(node);
        log_start(&node, &addresses, began.elapsed());
        let (stop, stopped) = watch::channel(false);
        let running = Tasks {
            serving: tokio::spawn(net::serve(listeners, Arc::clone(&node), stopped)),
            certificates: tokio::spawn(net::watch_certificates(Arc::clone(&node))),
            maintenance: tokio::spawn(maintenance::run(Arc::clone(&node))),
            coordinators: tokio::spawn(coordinators::run(Arc::clone(&node))),
            metrics: metrics.map(|endpoint| tokio::spawn(metrics::serve(endpoint, Arc::clone(&node)))),
            syncer: syncer_thread,
        };
        Ok(Self {
            addresses,
            metrics_address,
            node,
            stop,
            running: Some(running),
        })
    }

    /// The address of its first listener.
    pub fn address(&self) -> SocketAddr {
        // There is at least one.
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        self.addresses.first().copied().unwrap_or(unspecified)
    }

    /// The address of a listener, by its name.
    pub fn listener_address(&self, name: &str) -> Option<SocketAddr> {
        let mut listeners = self.node.endpoints.iter().zip(&self.addresses);
        let found = listeners.find(|(endpoint, _)| endpoint.name.eq_ignore_ascii_case(name));
        found.map(|(_, address)| *address)
    }

    /// The address of the metrics endpoint, if there is one.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The advertised address of its first listener, as `host:port`.
    pub fn advertised(&self) -> String {
        let (host, port) = self.node.endpoints.advertised("");
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }

    /// The directory of its files.
    pub fn data_dir(&self) -> PathBuf {
        self.node.data_dir.path().to_owned()
    }

    /// Ends all connections, closes all logs, and marks the directory as clean, so that the next start needs no recovery.
    pub async fn shutdown(mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        self.stop.send_replace(true);
        let _ = running.serving.await;
        for task in [running.maintenance, running.coordinators, running.certificates]
            .into_iter()
            .chain(running.metrics)
        {
            task.abort();
            let _ = task.await;
        }
        self.node.syncer.stop();
        let node = Arc::clone(&self.node);
        let closed = tokio::task::spawn_blocking(move || {
            let _ = running.syncer.join();
            close(&node);
        });
        let _ = closed.await;
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.stop.send_replace(true);
            running.maintenance.abort();
            running.coordinators.abort();
            running.certificates.abort();
            if let Some(metrics) = running.metrics {
                metrics.abort();
            }
            self.node.syncer.stop();
        }
    }
}

/// Binds all listeners, unless one of them would be open to other machines.
async fn bind_listeners(config: &BrokerConfig) -> Result<Vec<BoundListener>, StartError> {
    let mut bound = vec![];
    for listener in &config.listeners {
        let failed = |source| StartError::Listen {
            address: format!("{}:{}", listener.host, listener.port),
            source,
        };
        let addresses = net::resolve(listener).await.map_err(failed)?;
        check_exposure(config, listener, &addresses)?;
        bound.push(net::bind(&addresses, config.socket_listen_backlog_size as u32).map_err(failed)?);
    }
    Ok(bound)
}

/// Refuses a listener that serves strangers from other machines, unless that is wanted.
fn check_exposure(config: &BrokerConfig, listener: &Listener, addresses: &[SocketAddr]) -> Result<(), StartError> {
    let security = config.security_of(listener)?;
    let Some(address) = addresses.iter().find(|address| net::is_exposed(address)).copied() else {
        return Ok(());
    };
    let name = &listener.name;
    if !security.authenticates() {
        if !config.allow_unauthenticated {
            let listener = name.clone();
            return Err(StartError::Unauthenticated { listener, address });
        }
        tracing::warn!(
            event = "listener_without_authentication",
            listener = %name,
            %address,
            "anyone who can connect to this address can read, write and delete all records \
             (milena.allow.unauthenticated=true)"
        );
    } else if security.exposes_passwords() {
        tracing::warn!(
            event = "passwords_in_clear",
            listener = %name,
            %address,
            "clients send passwords or tokens in clear to this listener; use SASL_SSL"
        );
    }
    Ok(())
}

/// Binds the metrics endpoint, if there is to be one.
async fn bind_metrics(address: Option<String>) -> Result<Option<Endpoint>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    match Endpoint::bind(&address, metrics::CONNECTIONS_MAX).await {
        Ok(endpoint) => {
            tracing::info!(event = "metrics_listening", address = %endpoint.address(), "metrics endpoint listens");
            Ok(Some(endpoint))
        }
        Err(source) => Err(StartError::Metrics { address, source }),
    }
}

/// Adds the dynamic settings that earlier runs have stored.
fn with_run_time_settings(config: BrokerConfig, metadata: &MetadataLog) -> Result<BrokerConfig, ConfigError> {
    let metadata = metadata.metadata();
    let config = BrokerConfig::resolve(BrokerOverrides {
        dynamic: metadata.dynamic.clone(),
        dynamic_default: metadata.dynamic_default.clone(),
        fixed: config.overrides.fixed,
        groups: metadata.group_configs.clone(),
        client_metrics: metadata.client_metrics.clone(),
        features: metadata.features.clone(),
    })?;
    for (group, error) in misfits(&config) {
        tracing::warn!(
            event = "group_config_out_of_range",
            %group,
            %error,
            "settings of a group do not fit those of the broker; the nearest valid values are used"
        );
    }
    Ok(config)
}

/// Logs the start, with the results of recovery.
fn log_start(node: &Node, addresses: &[SocketAddr], took: Duration) {
    let listeners = node.endpoints.iter().zip(addresses);
    let listeners = listeners.map(|(endpoint, address)| format!("{}://{address}", endpoint.name));
    let listeners: Vec<String> = listeners.collect();
    let (mut partitions, mut offline, mut damaged, mut segments_read, mut bytes_read) = (0, 0, 0, 0, 0);
    let topics = node.topics();
    for partition in topics.iter().flat_map(|topic| &topic.partitions) {
        let recovery = partition.log.recovery();
        partitions += 1;
        offline += usize::from(partition.log.offline_reason().is_some());
        damaged += usize::from(!recovery.damage.is_empty());
        segments_read += recovery.segments_read;
        bytes_read += recovery.bytes_read;
    }
    let durability = format!("{:?}", node.config().topic_defaults.durability).to_lowercase();
    let ended = if node.data_dir.was_clean() { "clean" } else { "unclean" };
    tracing::info!(
        event = "broker_started",
        version = env!("CARGO_PKG_VERSION"),
        listeners = listeners.join(","),
        data_dir = %node.data_dir.path().display(),
        durability,
        topics = topics.iter().count(),
        partitions,
        offline,
        damaged,
        last_stop = ended,
        segments_read,
        bytes_read,
        took_ms = took.as_millis() as u64,
        "broker started"
    );
}

fn close(node: &Node) {
    let began = Instant::now();
    let mut all_closed = true;
    for topic in node.topics().iter() {
        for partition in &topic.partitions {
            if partition.log.offline_reason().is_some() {
                continue;
            }
            if let Err(error) = partition.log.close() {
                all_closed = false;
                tracing::error!(
                    event = "log_not_closed",
                    topic = %topic.name,
                    partition = partition.index,
                    %error,
                    "cannot close a log"
                );
            }
        }
    }
    maintenance::write_checkpoints(node);
    if all_closed && let Err(error) = node.data_dir.mark_clean() {
        all_closed = false;
        tracing::error!(event = "clean_mark_not_written", %error, "cannot mark the directory as clean");
    }
    tracing::info!(
        event = "broker_stopped",
        data_dir = %node.data_dir.path().display(),
        clean = all_closed,
        took_ms = began.elapsed().as_millis() as u64,
        "broker stopped"
    );
}

//! Starting and stopping a broker.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use milena_log::disk::{Disk, RealDisk};
use tokio::{sync::watch, task::JoinHandle as Task};

use crate::{
    config::{BrokerConfig, BrokerOverrides, ConfigError, ConfigMap, SecurityProtocol, misfits},
    coordinators,
    data_dir::{DataDir, DataDirError},
    log_levels::LogLevels,
    maintenance,
    metadata_log::{MetadataError, MetadataLog, OnLoss},
    net,
    node::{Node, Place},
    syncer::Syncer,
    telemetry::TelemetryReceiver,
    throttle::Throttle,
};

/// A broker that runs until it is shut down. Nothing about it is global: a process may have a hundred.
///
/// Dropping it without [`Broker::shutdown`] is like killing it: what was acknowledged is safe, but the next start has to
/// look at the logs again.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    node: Arc<Node>,
    stop: watch::Sender<bool>,
    /// `None` once it is shut down.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    serving: Task<()>,
    maintenance: Task<()>,
    coordinators: Task<()>,
    syncer: JoinHandle<()>,
}

/// What whoever embeds a broker may give it, besides settings.
#[derive(Debug)]
pub struct Options {
    /// Where its files are: on the machine's own disk, in memory, or on a disk that fails.
    pub disk: Arc<dyn Disk>,
    /// Who slows clients down; nobody, unless given.
    pub throttle: Option<Arc<dyn Throttle>>,
    /// The log levels of the process, for clients that look at or change them; without it there are no loggers.
    pub log_levels: Option<Arc<dyn LogLevels>>,
    /// The receiver of metrics that clients push; without it no client is asked for any.
    pub telemetry: Option<Arc<dyn TelemetryReceiver>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            throttle: None,
            log_levels: None,
            telemetry: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("listener {listener} cannot be served: only PLAINTEXT is, so far")]
    Protocol { listener: String },
    #[error("listeners must name where to listen, such as PLAINTEXT://127.0.0.1:9092")]
    NoListener,
    #[error("log.dirs must name exactly one directory")]
    NoDirectory,
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
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
    /// Starts a broker with Kafka's settings, from a map, a file or arguments. `log.dirs` is the one that must be there;
    /// a port of 0 lets the system choose.
    pub async fn start(settings: impl Into<ConfigMap>) -> Result<Self, StartError> {
        Self::start_with(Options::default(), settings).await
    }

    /// As [`Broker::start`], with what no setting can say.
    pub async fn start_with(options: Options, settings: impl Into<ConfigMap>) -> Result<Self, StartError> {
        let config = BrokerConfig::resolve(BrokerOverrides::fixed(settings))?;
        let listener = config.listeners.first().cloned().ok_or(StartError::NoListener)?;
        if let Some(other) = config
            .listeners
            .iter()
            .find(|other| other.protocol != SecurityProtocol::Plaintext)
        {
            return Err(StartError::Protocol {
                listener: other.name.clone(),
            });
        }
        let [dir] = &config.log_dirs[..] else {
            return Err(StartError::NoDirectory);
        };
        let began = Instant::now();
        let on_loss = match config.accept_loss {
            true => OnLoss::Accept,
            false => OnLoss::Refuse,
        };
        let data_dir = DataDir::open(options.disk, Path::new(dir), on_loss)?;
        let listening = net::bind(&listener.host, listener.port, config.socket_listen_backlog_size as u32)
            .await
            .map_err(|source| StartError::Listen {
                address: format!("{}:{}", listener.host, listener.port),
                source,
            })?;
        let address = listening.address;
        let (host, port) = advertised(&config, address);
        let metadata = MetadataLog::open(
            data_dir.disk(),
            data_dir.path(),
            data_dir.evidence(),
            data_dir.on_loss(),
        )?;
        let config = with_run_time_settings(config, &metadata)?;
        data_dir.begin().map_err(|source| DataDirError::Io {
            path: data_dir.path().to_owned(),
            source,
        })?;
        let (syncer, syncer_thread) = Syncer::start().map_err(StartError::Thread)?;
        let place = Place {
            data_dir,
            host,
            port,
            throttle: options.throttle,
            log_levels: options.log_levels,
            telemetry: options.telemetry,
        };
        let node =
            Node::open(config, place, metadata, syncer).map_err(|error| StartError::Topics(error.to_string()))?;
        let node = Arc::new(node);
        tell_start(&node, address, began.elapsed());
        let (stop, stopped) = watch::channel(false);
        let running = Running {
            serving: tokio::spawn(net::serve(listening, Arc::clone(&node), stopped)),
            maintenance: tokio::spawn(maintenance::run(Arc::clone(&node))),
            coordinators: tokio::spawn(coordinators::run(Arc::clone(&node))),
            syncer: syncer_thread,
        };
        Ok(Self {
            address,
            node,
            stop,
            running: Some(running),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that clients are told to connect to, as `host:port`.
    pub fn advertised(&self) -> String {
        let (host, port) = (&self.node.host, self.node.port);
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }

    /// Where its files are.
    pub fn data_dir(&self) -> PathBuf {
        self.node.data_dir.path().to_owned()
    }

    /// Ends all connections, closes all logs, and leaves the directory so that the next start is quick.
    pub async fn shutdown(mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        self.stop.send_replace(true);
        let _ = running.serving.await;
        for task in [running.maintenance, running.coordinators] {
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
            self.node.syncer.stop();
        }
    }
}

/// Adds what was set while the brokers before this one ran.
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
        tracing::warn!(%group, %error, "settings of a group do not fit the broker any more; it uses the nearest that do");
    }
    Ok(config)
}

/// What clients are told to connect to.
fn advertised(config: &BrokerConfig, address: SocketAddr) -> (String, u16) {
    let told = config.advertised_listeners.first();
    let host = told
        .map(|listener| listener.host.clone())
        .filter(|host| !host.is_empty());
    let port = told.map(|listener| listener.port).filter(|port| *port != 0);
    // An address that means every interface is none that a client could use.
    let own = if address.ip().is_unspecified() {
        "127.0.0.1".to_owned()
    } else {
        address.ip().to_string()
    };
    (host.unwrap_or(own), port.unwrap_or_else(|| address.port()))
}

/// Tells what was started, and what was found.
fn tell_start(node: &Node, address: SocketAddr, took: Duration) {
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
        %address,
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
                tracing::error!(topic = %topic.name, partition = partition.index, %error, "cannot close a log");
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

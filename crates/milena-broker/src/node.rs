//! The node: the state that all connections share.

mod acls;
mod checkpoints;
mod configs;
mod deletion;
mod image;
mod limits;
mod partitions;
mod quotas;
mod scram;

pub(crate) use configs::{ConfigChange, logger_of, no_loggers};

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use bytestring::ByteString;
use milena_log::{
    Durability, LogConfig, StorageError,
    disk::{Disk, MemoryDisk},
};
use milena_wire::{
    Uuid,
    compression::{Codec, Compression},
    errors::ErrorCode,
};
use tokio::sync::Semaphore;

use crate::{
    auth::{ScramUsers, TokenVerifiers},
    authorizer::BrokerAuthorizer,
    config::{self, BrokerConfig, CompressionType, ConfigError, Fault, Scope, TopicConfig, TopicOverrides},
    coordinators::{DeadlineTimer, Groups, Transactions},
    damage_log::DamageLog,
    data_dir::{DataDir, partition_of_folder},
    fetch_sessions::FetchSessions,
    limit_log::LimitLog,
    log_levels::LogLevels,
    metadata_log::{Change, Metadata, MetadataError, MetadataLog, TopicRecord},
    metrics::Metrics,
    net::{self, Connections, Endpoints, RequestMemory, TlsBuffers, Unauthenticated},
    node::{image::TopicsCache, partitions::Age},
    quotas::{MutationPermits, Quotas},
    syncer::Syncer,
    telemetry::{Telemetry, TelemetryReceiver},
    throttle::Throttle,
    topics::{Topic, Topics, is_internal, name_problem},
};

/// The number of producer ids that are reserved at once; after a crash the rest of them is skipped.
const PRODUCER_ID_BLOCK: i64 = 1_000;

/// Memory for requests that are being read, of all connections together; `queued.max.request.bytes` overrides it.
const REQUEST_BYTES_DEFAULT: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Node {
    config: RwLock<Arc<BrokerConfig>>,
    pub(crate) cluster_id: String,
    pub(crate) leader_epoch: i32,
    /// Whether `min.insync.replicas` above 1 refuses writes, rather than being ignored.
    pub(crate) misses_replicas: bool,
    pub(crate) endpoints: Endpoints,
    pub(crate) data_dir: DataDir,
    /// The disk of topics whose records are in memory only.
    memory: Arc<dyn Disk>,
    topics: RwLock<Topics>,
    metadata: Mutex<MetadataLog>,
    /// Held while the checkpoints are written.
    checkpoints: Mutex<()>,
    producer_ids: Mutex<ProducerIds>,
    pub(crate) syncer: Syncer,
    pub(crate) request_memory: RequestMemory,
    pub(crate) connections: Arc<Connections>,
    pub(crate) unauthenticated: Arc<Unauthenticated>,
    pub(crate) tls_buffers: Arc<TlsBuffers>,
    /// TLS handshakes that may use the processor at once.
    pub(crate) handshake_turns: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) throttle: Option<Arc<dyn Throttle>>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) log_levels: Option<Arc<dyn LogLevels>>,
    pub(crate) telemetry_receiver: Option<Arc<dyn TelemetryReceiver>>,
    telemetry: Mutex<Telemetry>,
    fetch_sessions: Mutex<FetchSessions>,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    /// `None` if every client may do everything.
    pub(crate) authorizer: Option<BrokerAuthorizer>,
    /// The next deadline of the coordinators.
    pub(crate) deadline_timer: DeadlineTimer,
    image: TopicsCache,
    topic_ids: Mutex<TopicIds>,
    pub(crate) damage_log: DamageLog,
    pub(crate) limit_log: LimitLog,
    /// The users that may log in by SCRAM.
    pub(crate) scram: ScramUsers,
    pub(crate) tokens: TokenVerifiers,
}

/// The ids of topics that a folder can belong to.
#[derive(Debug, Default)]
struct TopicIds {
    /// The topics that existed at the start.
    live: BTreeSet<Uuid>,
    deleted: BTreeSet<Uuid>,
}

impl TopicIds {
    fn of(metadata: &Metadata) -> Self {
        let ids = metadata.topics.values().map(|topic| &topic.id);
        Self {
            live: ids.filter_map(|id| id.parse().ok()).collect(),
            deleted: metadata.deleted.iter().filter_map(|id| id.parse().ok()).collect(),
        }
    }
}

#[derive(Debug, Default)]
struct ProducerIds {
    next: i64,
    /// The end of the reserved block.
    end: i64,
}

/// A topic to be created.
#[derive(Debug, Clone)]
pub(crate) struct NewTopic {
    pub(crate) name: ByteString,
    /// -1 for the broker's default; so is the replication factor.
    pub(crate) partitions: i32,
    pub(crate) replication_factor: i16,
    pub(crate) overrides: TopicOverrides,
}

/// A refusal: Kafka's error code and a reason for people.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {reason}")]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { code, reason }
    }

    pub(crate) fn no_topic(name: &str) -> Self {
        Self::new(ErrorCode::UnknownTopicOrPartition, format!("there is no topic {name}"))
    }

    /// The refusal of a client without a right on a topic, with Kafka's text.
    pub(crate) fn topic_authorization_failed() -> Self {
        Self::new(ErrorCode::TopicAuthorizationFailed, "Authorization failed.")
    }

    /// The error code that Kafka has for a config error, which depends on the scope.
    pub(crate) fn of_config(error: &ConfigError, scope: Scope) -> Self {
        let code = match error.fault(scope) {
            Fault::Config => ErrorCode::InvalidConfig,
            Fault::Request => ErrorCode::InvalidRequest,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self::new(ErrorCode::InvalidConfig, error.to_string())
    }
}

impl From<MetadataError> for Refusal {
    fn from(error: MetadataError) -> Self {
        tracing::error!(event = "metadata_not_written", %error, "metadata cannot be written");
        Self::new(ErrorCode::KafkaStorageError, error.to_string())
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        Self::new(error.error_code(), error.to_string())
    }
}

/// The parts that a node is opened with, besides its configuration.
pub(crate) struct NodeOptions {
    pub(crate) data_dir: DataDir,
    pub(crate) endpoints: Endpoints,
    pub(crate) tokens: TokenVerifiers,
    pub(crate) throttle: Option<Arc<dyn Throttle>>,
    pub(crate) log_levels: Option<Arc<dyn LogLevels>>,
    pub(crate) telemetry: Option<Arc<dyn TelemetryReceiver>>,
}

/// The bytes of requests that may be in memory at once.
fn request_bytes_max(config: &BrokerConfig) -> usize {
    match usize::try_from(config.queued_max_request_bytes).unwrap_or(0) {
        0 => REQUEST_BYTES_DEFAULT,
        bytes => bytes,
    }
}

impl Node {
    /// Opens all topics, with recovery after a crash.
    pub(crate) fn open(
        config: BrokerConfig,
        options: NodeOptions,
        mut metadata: MetadataLog,
        syncer: Syncer,
    ) -> Result<Self, Refusal> {
        let NodeOptions {
            data_dir,
            endpoints,
            tokens,
            throttle,
            log_levels,
            telemetry,
        } = options;
        let mut changes = vec![];
        let cluster_id = metadata
            .metadata()
            .cluster_id
            .clone()
            .unwrap_or_else(|| random_uuid().to_string());
        changes.push(Change::Cluster { id: cluster_id.clone() });
        // With a new epoch, clients validate their positions, because a power cut may have lost records.
        let leader_epoch = metadata.metadata().leader_epoch + i32::from(!data_dir.was_clean());
        changes.push(Change::LeaderEpoch { epoch: leader_epoch });
        let (unknown_user_key, new_key) = scram::unknown_user_key(metadata.metadata())?;
        changes.extend(new_key);
        metadata.append(changes)?;
        let next = metadata.metadata().next_producer_id;
        let records = metadata.metadata().topics.clone();
        let topic_ids = TopicIds::of(metadata.metadata());
        let authorizer = acls::open(&config, metadata.metadata())?;
        let slots = usize::try_from(config.max_incremental_fetch_session_cache_slots).unwrap_or(0);
        let telemetry_clients = config.limits.client_metrics_instances;
        let session_partitions = config.limits.fetch_session_partitions;
        let request_memory = RequestMemory::new(request_bytes_max(&config));
        let quotas = Arc::new(Quotas::new(&config));
        let scram = ScramUsers::new(&metadata.metadata().scram_users, unknown_user_key);
        let node = Self {
            misses_replicas: config.strict_replication_factor,
            config: RwLock::new(Arc::new(config)),
            cluster_id,
            leader_epoch,
            endpoints,
            data_dir,
            memory: Arc::new(MemoryDisk::new()),
            topics: RwLock::default(),
            metadata: Mutex::new(metadata),
            checkpoints: Mutex::default(),
            producer_ids: Mutex::new(ProducerIds { next, end: next }),
            syncer,
            request_memory,
            connections: Arc::default(),
            unauthenticated: Arc::default(),
            tls_buffers: Arc::default(),
            handshake_turns: net::handshake_turns(),
            metrics: Metrics::default(),
            throttle,
            quotas,
            log_levels,
            telemetry_receiver: telemetry,
            telemetry: Mutex::new(Telemetry::new(telemetry_clients)),
            fetch_sessions: Mutex::new(FetchSessions::new(slots, session_partitions, random_seed())),
            groups: Groups::default(),
            transactions: Transactions::default(),
            authorizer,
            deadline_timer: DeadlineTimer::default(),
            image: TopicsCache::default(),
            topic_ids: Mutex::new(topic_ids),
            damage_log: DamageLog::default(),
            limit_log: LimitLog::default(),
            scram,
            tokens,
        };
        node.open_topics(records)?;
        node.drop_old_checkpoints()?;
        node.load_client_quotas();
        Ok(node)
    }

    /// Opens the topics that the metadata names, and logs folders that belong to none.
    fn open_topics(&self, records: BTreeMap<String, TopicRecord>) -> Result<(), Refusal> {
        for (name, record) in records {
            let id = record
                .id
                .parse()
                .map_err(|error| Refusal::new(ErrorCode::KafkaStorageError, format!("topic {name}: {error}")))?;
            let new = NewTopic {
                name: name.into(),
                partitions: record.partitions,
                replication_factor: record.replication_factor,
                overrides: TopicOverrides(record.configs),
            };
            let topic = self.open_topic(&new, id, Age::Old)?;
            self.topics_mut().insert(topic);
        }
        let topics = self.topics();
        for folder in self.data_dir.folders() {
            let named = partition_of_folder(folder).and_then(|(topic, index)| topics.by_name(topic)?.partition(index));
            if named.is_none() {
                tracing::warn!(
                    event = "unknown_partition_folder",
                    folder,
                    "a folder of records belongs to no known topic; it is left as it is"
                );
            }
        }
        self.data_dir.ends().publish().map_err(|source| {
            let reason = format!("cannot write {}: {source}", self.data_dir.path().display());
            Refusal::new(ErrorCode::KafkaStorageError, reason)
        })
    }

    fn topic_ids(&self) -> MutexGuard<'_, TopicIds> {
        self.topic_ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn config(&self) -> Arc<BrokerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn topics(&self) -> RwLockReadGuard<'_, Topics> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the topics for a change, which outdates all images of them.
    fn topics_mut(&self) -> RwLockWriteGuard<'_, Topics> {
        let topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        self.image.outdate();
        topics
    }

    pub(crate) fn telemetry(&self) -> MutexGuard<'_, Telemetry> {
        self.telemetry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of the metadata log in bytes.
    pub(crate) fn metadata_size(&self) -> u64 {
        self.metadata().size()
    }

    fn metadata(&self) -> MutexGuard<'_, MetadataLog> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fetch_sessions(&self) -> MutexGuard<'_, FetchSessions> {
        self.fetch_sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a new topic, and fills in the defaults.
    pub(crate) fn check_new_topic(&self, new: &NewTopic) -> Result<NewTopic, Refusal> {
        let config = self.config();
        if let Some(problem) = name_problem(&new.name) {
            return Err(Refusal::new(ErrorCode::InvalidTopicException, problem));
        }
        self.topics().check_free(&new.name)?;
        let partitions = if new.partitions == -1 {
            config.num_partitions
        } else {
            new.partitions
        };
        if partitions < 1 {
            return Err(Refusal::new(
                ErrorCode::InvalidPartitions,
                "a topic has at least one partition",
            ));
        }
        if !is_internal(&new.name) {
            self.check_added(partitions)?;
        }
        let replication_factor = match new.replication_factor {
            -1 => config.default_replication_factor as i16,
            factor => factor,
        };
        if replication_factor < 1 || (replication_factor > 1 && config.strict_replication_factor) {
            let reason = format!("replication factor {replication_factor} is not possible with one broker");
            return Err(Refusal::new(ErrorCode::InvalidReplicationFactor, reason));
        }
        TopicConfig::resolve(&new.overrides, &config)?;
        Ok(NewTopic {
            // A copy: as a slice of the request it would keep that in memory.
            name: ByteString::from(&*new.name),
            partitions,
            replication_factor,
            overrides: new.overrides.clone(),
        })
    }

    /// Creates topics, which survive a power cut when this returns. All of them together cost one sync.
    pub(crate) fn create_topics(
        &self,
        new: &[NewTopic],
        permits: &mut MutationPermits<'_>,
    ) -> Vec<Result<Arc<Topic>, Refusal>> {
        // The lock is held, so that two topics cannot get the same name.
        let mut metadata = self.metadata();
        let mut created = Topics::default();
        let mut create = |new| {
            let new = self.check_new_topic(new)?;
            created.check_free(&new.name)?;
            let partitions = usize::try_from(new.partitions).unwrap_or(0);
            self.check_room_for_topic(&new.name, partitions, (created.len(), created.partitions_len()))?;
            permits.take(partitions)?;
            if new.replication_factor > 1 && !is_internal(&new.name) {
                tracing::warn!(
                    event = "replication_factor_ignored",
                    topic = %new.name,
                    factor = new.replication_factor,
                    "this broker keeps one replica, regardless of the replication factor"
                );
            }
            Ok(created.insert(self.open_topic(&new, random_uuid(), Age::New)?))
        };
        let outcomes: Vec<Result<Arc<Topic>, Refusal>> = new.iter().map(&mut create).collect();
        let changes: Vec<Change> = outcomes.iter().flatten().map(|topic| creation_of(topic)).collect();
        if changes.is_empty() {
            return outcomes;
        }
        if let Err(error) = metadata.append(changes) {
            let refusal = Refusal::from(error);
            return outcomes
                .into_iter()
                .map(|outcome| outcome.and(Err(refusal.clone())))
                .collect();
        }
        let mut topics = self.topics_mut();
        for topic in outcomes.iter().flatten() {
            topics.insert(Arc::clone(topic));
        }
        outcomes
    }

    /// Returns a topic, and creates it if `auto.create.topics.enable` allows that.
    pub(crate) fn auto_create_topic(
        &self,
        name: &ByteString,
        permits: &mut MutationPermits<'_>,
    ) -> Result<Arc<Topic>, Refusal> {
        if !self.config().auto_create_topics_enable || is_internal(name) {
            let reason = format!("there is no topic {name}");
            return Err(Refusal::new(ErrorCode::UnknownTopicOrPartition, reason));
        }
        let new = NewTopic {
            name: name.clone(),
            partitions: -1,
            replication_factor: -1,
            overrides: TopicOverrides::default(),
        };
        match self.create_topics(&[new], permits).pop() {
            // Another request has created it meanwhile.
            Some(Err(refusal)) if refusal.code == ErrorCode::TopicAlreadyExists => {
                self.topics().by_name(name).cloned().ok_or(refusal)
            }
            outcome => outcome.unwrap_or_else(|| Err(Refusal::no_topic(name))),
        }
    }

    /// Returns a producer id that was never used.
    pub(crate) fn new_producer_id(&self) -> Result<i64, Refusal> {
        let mut ids = self.producer_ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.next >= ids.end {
            let end = ids.next + PRODUCER_ID_BLOCK;
            self.metadata().append(vec![Change::ProducerIds { next: end }])?;
            ids.end = end;
        }
        ids.next += 1;
        Ok(ids.next - 1)
    }

    fn open_topic(&self, new: &NewTopic, id: Uuid, age: Age) -> Result<Topic, Refusal> {
        let broker = self.config();
        let config = TopicConfig::resolve(&new.overrides, &broker)?;
        Ok(Topic {
            name: new.name.clone(),
            id,
            replication_factor: new.replication_factor,
            overrides: new.overrides.clone(),
            partitions: self.open_partitions((&new.name, id), 0..new.partitions, &log_config(&config, &broker), age)?,
        })
    }

    /// Checks the leader epoch of a client; -1 stands for unknown.
    pub(crate) fn check_leader_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        match epoch {
            -1 => Ok(()),
            epoch if epoch < self.leader_epoch => Err(ErrorCode::FencedLeaderEpoch),
            epoch if epoch > self.leader_epoch => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }
}

fn creation_of(topic: &Topic) -> Change {
    Change::Topic {
        name: topic.name.to_string(),
        id: topic.id.to_string(),
        partitions: topic.partitions.len() as i32,
        replication_factor: topic.replication_factor,
        configs: topic.overrides.0.clone(),
    }
}

fn log_config(config: &TopicConfig, broker: &BrokerConfig) -> LogConfig {
    let producers_max = broker.limits.producers_per_partition;
    let unsigned = |number: i32| u32::try_from(number).unwrap_or(0);
    LogConfig {
        segment_bytes: unsigned(config.segment_bytes),
        segment_ms: config.segment_ms,
        segment_jitter_ms: config.segment_jitter_ms,
        segment_index_bytes: unsigned(config.segment_index_bytes),
        index_interval_bytes: unsigned(config.index_interval_bytes),
        retention_ms: config.retention_ms,
        retention_bytes: config.retention_bytes,
        delete: config.cleanup_policy.delete,
        compact: config.cleanup_policy.compact,
        min_cleanable_dirty_ratio: config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms: config.min_compaction_lag_ms,
        max_compaction_lag_ms: config.max_compaction_lag_ms,
        delete_retention_ms: config.delete_retention_ms,
        max_message_bytes: unsigned(config.max_message_bytes),
        timestamp_type: match config.message_timestamp_type {
            config::TimestampType::CreateTime => milena_wire::records::TimestampType::CreateTime,
            config::TimestampType::LogAppendTime => milena_wire::records::TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: config.message_timestamp_before_max_ms,
        timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        compression: compression(config),
        durability: match config.durability {
            config::Durability::Memory => Durability::Memory,
            config::Durability::Os => Durability::Os,
            config::Durability::Fsync => Durability::Fsync,
        },
        flush_messages: config.flush_messages,
        flush_ms: config.flush_ms,
        producers_max,
    }
}

/// The compression of a topic's batches; `None` keeps that of the producer.
fn compression(config: &TopicConfig) -> Option<Compression> {
    let codec = match config.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Codec(codec) => codec,
    };
    let level = match codec {
        Codec::None | Codec::Snappy => None,
        Codec::Gzip => Some(config.compression_gzip_level),
        Codec::Lz4 => Some(config.compression_lz4_level),
        Codec::Zstd => Some(config.compression_zstd_level),
    };
    // Levels were checked when they were set.
    let chosen = level.and_then(|level| Compression::with_level(codec, level).ok());
    Some(chosen.unwrap_or_else(|| Compression::from(codec)))
}

pub(crate) fn random_seed() -> u64 {
    let bytes = *random_uuid().as_bytes();
    bytes.first_chunk().map_or(0, |seed| u64::from_be_bytes(*seed))
}

/// Returns a random id that clients accept: Kafka reserves the smallest ones, and an id that starts with a dash would look
/// like an option on a command line.
pub(crate) fn random_uuid() -> Uuid {
    loop {
        let mut bytes = [0; 16];
        if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) != Ok(bytes.len()) {
            continue;
        }
        let id = Uuid::from_bytes(bytes);
        if !id.is_zero() && !id.to_string().starts_with('-') {
            return id;
        }
    }
}

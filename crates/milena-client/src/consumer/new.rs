//! Creation of a consumer.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use bytestring::ByteString;
use milena_machines::{
    assign::{self, Assignor},
    fetch::{Positions, ResetPolicy},
    member::{self, Member, MemberConfig, OffsetCalls, OffsetConfig},
};
use milena_wire::{pool::BufferPool, records::RecordDecoder};

use super::{
    Consumer,
    completed_fetch::BatchReader,
    error::NewConsumerError,
    group::{AutoCommit, Group},
    listener::NoListener,
    notices::MemberNotices,
    rebalance_consumer::RebalanceConsumer,
    shared::{ConsumerCore, ConsumerShared},
};
use crate::{
    config::{self, AutoOffsetReset, ConfigErrors, ConsumerConfig, GroupProtocol},
    coordinator::{Coordinator, CoordinatorKind},
    io::Io,
    metadata::Metadata,
    net::{Connections, client_settings},
};

/// Memory for idle response buffers: one response with default settings.
const IDLE_BUFFER_BYTES: usize = 16 << 20;
/// Maximum size of a decompressed batch.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

impl Consumer {
    /// Creates a consumer from a configuration, its builder, or a map of settings. It does not contact a broker.
    pub fn new<C>(config: C) -> Result<Self, NewConsumerError>
    where
        C: TryInto<ConsumerConfig>,
        ConfigErrors: From<C::Error>,
    {
        Self::make(config, None)
    }

    /// Creates a consumer with [custom assignors](super::assignor), in the order of preference. They replace
    /// `partition.assignment.strategy` and apply to the classic protocol only; in the consumer protocol the broker
    /// assigns.
    pub fn with_assignors<C>(config: C, assignors: Vec<Box<dyn Assignor>>) -> Result<Self, NewConsumerError>
    where
        C: TryInto<ConsumerConfig>,
        ConfigErrors: From<C::Error>,
    {
        Self::make(config, Some(assignors))
    }

    fn make<C>(config: C, assignors: Option<Vec<Box<dyn Assignor>>>) -> Result<Self, NewConsumerError>
    where
        C: TryInto<ConsumerConfig>,
        ConfigErrors: From<C::Error>,
    {
        let config = config.try_into().map_err(ConfigErrors::from)?;
        for note in &config.notes {
            tracing::warn!(event = "config_note", "{note}");
        }
        let io = Io::start().map_err(|error| NewConsumerError::Io(error.to_string()))?;
        let runtime = Io::of_records(config.io).map_err(|error| NewConsumerError::Io(error.to_string()))?;
        let connections = Connections::with_runtime(
            io.clone(),
            runtime,
            Arc::new(client_settings!(
                &config,
                config.allow_auto_create_topics,
                IDLE_BUFFER_BYTES
            )),
        );
        let metadata = Metadata::start(connections.clone());
        let group = new_group(&config, &metadata, assignors)?;
        let coordinator = group.as_ref().map(|group| group.coordinator.clone());
        let positions = Positions::new(reset_policy(&config), group.is_some(), config.retry_backoff_ms);
        let reader = BatchReader {
            decoder: RecordDecoder::new(BufferPool::new(IDLE_BUFFER_BYTES), DECOMPRESSED_BYTES_MAX),
            checks_crc: config.check_crcs,
        };
        let core = ConsumerCore::new(&config, positions, group);
        let shared = ConsumerShared::new(config, io, connections, metadata, core);
        if let Some(coordinator) = coordinator {
            let weak = Arc::downgrade(&shared);
            coordinator.on_change(move |event| {
                if let Some(shared) = weak.upgrade() {
                    shared.handle_coordinator(event);
                }
            });
        }
        Ok(Self {
            inner: RebalanceConsumer { shared },
            reader,
            listener: Box::new(NoListener),
            interceptors: vec![],
        })
    }
}

fn new_group(
    config: &ConsumerConfig,
    metadata: &Metadata,
    assignors: Option<Vec<Box<dyn Assignor>>>,
) -> Result<Option<Group>, NewConsumerError> {
    let Some(group_id) = &config.group_id else {
        return Ok(None);
    };
    let group_id = ByteString::from(group_id.as_str());
    let seeds = RandomState::new();
    let member = Member::new(member_config(config, &group_id, assignors), seeds.hash_one("member"))?;
    let offsets = OffsetConfig {
        group_id: group_id.clone(),
        request_timeout_ms: i64::from(config.request_timeout_ms),
        retry_backoff_ms: config.retry_backoff_ms,
        retry_backoff_max_ms: config.retry_backoff_max_ms,
    };
    let offsets = OffsetCalls::new(offsets, seeds.hash_one("offsets"));
    let coordinator = Coordinator::start(metadata.clone(), CoordinatorKind::Group, group_id);
    let interval_ms = i64::from(config.auto_commit_interval_ms);
    let auto_commit = config.enable_auto_commit.then(|| AutoCommit::new(interval_ms));
    let notices = Arc::new(MemberNotices::new(config));
    Ok(Some(Group::new(member, offsets, coordinator, auto_commit, notices)))
}

fn member_config(
    config: &ConsumerConfig,
    group_id: &ByteString,
    assignors: Option<Vec<Box<dyn Assignor>>>,
) -> MemberConfig {
    let text = |text: &Option<String>| text.as_deref().map(ByteString::from);
    let protocol = match &config.group_protocol {
        GroupProtocol::Classic {
            session_timeout_ms,
            heartbeat_interval_ms,
            assignors: names,
        } => member::GroupProtocol::Classic {
            session_timeout_ms: *session_timeout_ms,
            heartbeat_interval_ms: *heartbeat_interval_ms,
            assignors: assignors.unwrap_or_else(|| {
                let builtin = |name: &config::AssignorName| assign::builtin(&name.to_string());
                names.iter().filter_map(builtin).collect()
            }),
        },
        GroupProtocol::Consumer { remote_assignor } => member::GroupProtocol::Consumer {
            remote_assignor: text(remote_assignor),
        },
    };
    MemberConfig {
        group_id: group_id.clone(),
        instance_id: text(&config.group_instance_id),
        rack: text(&config.client_rack),
        rebalance_timeout_ms: config.max_poll_interval_ms,
        request_timeout_ms: i64::from(config.request_timeout_ms),
        retry_backoff_ms: config.retry_backoff_ms,
        retry_backoff_max_ms: config.retry_backoff_max_ms,
        protocol,
    }
}

fn reset_policy(config: &ConsumerConfig) -> ResetPolicy {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match config.auto_offset_reset {
        AutoOffsetReset::Earliest => ResetPolicy::Earliest,
        AutoOffsetReset::Latest => ResetPolicy::Latest,
        AutoOffsetReset::ByDuration(duration) => ResetPolicy::ByDuration {
            millis: millis(duration),
        },
        AutoOffsetReset::None => ResetPolicy::None,
    }
}

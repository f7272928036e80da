//! Log directories of brokers.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::{
    errors::ErrorCode,
    messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, describe_log_dirs_response::DescribeLogDirsResult},
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    error::check,
    own,
    route::Route,
};

/// A log directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    pub path: ByteString,
    /// Its error, as in `KAFKA_STORAGE_ERROR`.
    pub error: Option<ErrorCode>,
    /// Of its volume; `None` if the broker is too old to report it.
    pub total_bytes: Option<i64>,
    /// Of its volume; `None` if the broker is too old to report it.
    pub usable_bytes: Option<i64>,
    pub replicas: BTreeMap<TopicPartition, LogDirReplica>,
}

/// A replica in a log directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDirReplica {
    pub size_bytes: i64,
    /// Lag in records.
    pub offset_lag: i64,
    /// Whether the replica is being moved here from another directory.
    pub future: bool,
}

impl Admin {
    /// Returns the log directories of these brokers.
    pub async fn describe_log_dirs(&self, brokers: impl IntoIterator<Item = i32>) -> Results<i32, Vec<LogDir>> {
        let call = AdminCall::new(
            "log directories of broker",
            |id: &i32| Route::Broker(*id),
            |_| DescribeLogDirsRequest {
                topics: None,
                ..Default::default()
            },
            |context: &CallContext<i32>, response: DescribeLogDirsResponse| {
                check(response.error_code, None)?;
                let dirs: Vec<LogDir> = response.results.iter().map(log_dir).collect();
                context.all(&dirs)
            },
        );
        self.call(call, brokers).await
    }

    /// Returns the log directories of all brokers.
    pub async fn describe_all_log_dirs(&self) -> Result<Results<i32, Vec<LogDir>>, AdminError> {
        let brokers = self.broker_ids().await?;
        Ok(self.describe_log_dirs(brokers).await)
    }
}

fn log_dir(dir: &DescribeLogDirsResult) -> LogDir {
    let mut replicas = BTreeMap::new();
    for topic in &dir.topics {
        let name = own(&topic.name);
        for partition in &topic.partitions {
            let replica = LogDirReplica {
                size_bytes: partition.partition_size,
                offset_lag: partition.offset_lag,
                future: partition.is_future_key,
            };
            replicas.insert(TopicPartition::new(name.clone(), partition.partition_index), replica);
        }
    }
    let context = |bytes: i64| Some(bytes).filter(|bytes| *bytes >= 0);
    LogDir {
        path: own(&dir.log_dir),
        error: check(dir.error_code, None).err().map(|error| error.code),
        total_bytes: context(dir.total_bytes),
        usable_bytes: context(dir.usable_bytes),
        replicas,
    }
}

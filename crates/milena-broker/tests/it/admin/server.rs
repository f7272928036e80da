//! A broker in this process, and a client that calls it and waits.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use bytes::Bytes;
use milena_broker::{Broker, config::RawConfig};
use milena_wire::{
    errors::ErrorCode,
    frame,
    message::Request,
    messages::{
        AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
        DescribeConfigsRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest,
        alter_configs_request,
        create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        describe_configs_request::DescribeConfigsResource,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    records::{BatchBuilder, BatchOptions, NewRecord},
};
use tokio::runtime::Runtime;

use super::{DELETE, NONE};
use crate::raw;

/// A directory that goes with the test.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("milena-admin-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A broker on a runtime of its own, so that dropping both is like killing a process.
pub(super) struct Server {
    runtime: Runtime,
    broker: Broker,
}

impl Server {
    pub(super) fn start(dir: &Dir) -> Self {
        Self::start_with(dir, &[])
    }

    pub(super) fn start_with(dir: &Dir, settings: &[(&str, &str)]) -> Self {
        let mut all: RawConfig = raw(settings);
        all.insert("listeners".to_owned(), "PLAINTEXT://127.0.0.1:0".to_owned());
        all.insert("log.dirs".to_owned(), dir.0.to_string_lossy().into_owned());
        let runtime = Runtime::new().unwrap();
        let broker = runtime.block_on(Broker::start(all)).unwrap();
        Self { runtime, broker }
    }

    pub(super) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.broker.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client { stream, requests: 0 }
    }

    pub(super) fn stop(self) {
        self.runtime.block_on(self.broker.shutdown());
    }

    pub(super) fn kill(self) {
        drop(self.broker);
        drop(self.runtime);
    }
}

pub(super) struct Client {
    stream: TcpStream,
    requests: i32,
}

impl Client {
    pub(super) fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.requests += 1;
        let frame = frame::encode_request(request, version, self.requests, None).unwrap();
        self.stream.write_all(&frame.into_bytes()).unwrap();
        let what = format!("{} version {version}", R::NAME);
        let mut prefix = [0; frame::LENGTH_SIZE];
        self.stream
            .read_exact(&mut prefix)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut answer = vec![0; frame::frame_length(prefix, 100 << 20).unwrap()];
        self.stream.read_exact(&mut answer).unwrap();
        let (id, response) = frame::decode_response::<R::Response>(&Bytes::from(answer), version)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(id, self.requests, "{what}");
        response
    }

    pub(super) fn latest<R: Request>(&mut self, request: &R) -> R::Response {
        self.call(request, R::KEY.broker_versions().unwrap().max)
    }

    pub(super) fn at_every_version<R: Request>(&mut self, request: &R, check: impl Fn(i16, R::Response)) {
        let versions = R::KEY.broker_versions().unwrap();
        for version in versions.min..=versions.max {
            check(version, self.call(request, version));
        }
    }

    pub(super) fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: (*name).into(),
            value: Some((*value).into()),
            ..Default::default()
        });
        let response = self.latest(&CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: name.into(),
                num_partitions: partitions,
                replication_factor: 1,
                configs: configs.collect(),
                ..Default::default()
            }],
            ..Default::default()
        });
        assert_eq!(
            response.topics[0].error_code, NONE,
            "{:?}",
            response.topics[0].error_message
        );
    }

    /// Appends records of `size` bytes; gives the error.
    pub(super) fn produce(&mut self, topic: &str, count: usize, size: usize) -> ErrorCode {
        self.produce_with(topic, count, size, BatchOptions::default())
    }

    pub(super) fn produce_with(&mut self, topic: &str, count: usize, size: usize, options: BatchOptions) -> ErrorCode {
        let mut builder = BatchBuilder::new(options);
        let value = vec![b'x'; size];
        for _ in 0..count {
            let record = NewRecord {
                timestamp: 1_700_000_000_000,
                // Compacted topics want one.
                key: Some(b"key"),
                value: Some(&value),
                ..NewRecord::default()
            };
            builder.append(&record).unwrap();
        }
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![TopicProduceData {
                name: topic.into(),
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(builder.finish()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.call(&request, 9);
        error(response.responses[0].partition_responses[0].error_code)
    }

    /// The offset for a timestamp: -2 for the start of the log, -1 for its end.
    pub(super) fn offset(&mut self, topic: &str, timestamp: i64) -> i64 {
        let response = self.call(
            &ListOffsetsRequest {
                topics: vec![ListOffsetsTopic {
                    name: topic.into(),
                    partitions: vec![ListOffsetsPartition {
                        timestamp,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            },
            7,
        );
        response.topics[0].partitions[0].offset
    }

    pub(super) fn delete_records(&mut self, topic: &str, partition_index: i32, offset: i64) -> (i64, ErrorCode) {
        let response = self.latest(&delete_records(topic, partition_index, offset));
        let result = &response.topics[0].partitions[0];
        (result.low_watermark, error(result.error_code))
    }

    pub(super) fn partitions(&mut self, topic: &str) -> usize {
        let response = self.latest(&MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(topic.into()),
                ..Default::default()
            }]),
            ..Default::default()
        });
        response.topics[0].partitions.len()
    }

    pub(super) fn grow(&mut self, topic: &str, count: i32, assigned: Option<&[i32]>, validate_only: bool) -> ErrorCode {
        let response = self.latest(&grow(topic, count, assigned, validate_only));
        let result = &response.results[0];
        assert_eq!(result.error_message.is_some(), result.error_code != NONE);
        error(result.error_code)
    }

    pub(super) fn alter(&mut self, resource: (i8, &str), ops: &[(&str, i8, &str)]) -> (ErrorCode, String) {
        let response = self.latest(&incremental(resource, ops, false));
        let result = &response.responses[0];
        let message = result.error_message.as_ref().map(ToString::to_string);
        (error(result.error_code), message.unwrap_or_default())
    }

    /// A setting as it is described: value and source.
    pub(super) fn config(&mut self, resource: (i8, &str), key: &str) -> Option<(String, i8)> {
        let response = self.latest(&DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: resource.0,
                resource_name: resource.1.into(),
                configuration_keys: Some(vec![key.into()]),
                ..Default::default()
            }],
            ..Default::default()
        });
        let config = response.results[0].configs.first()?;
        Some((config.value.as_ref()?.to_string(), config.config_source))
    }
}

pub(super) fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

pub(super) fn delete_records(topic: &str, partition_index: i32, offset: i64) -> DeleteRecordsRequest {
    DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.into(),
            partitions: vec![DeleteRecordsPartition {
                partition_index,
                offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Each partition that is assigned goes to one broker.
pub(super) fn grow(topic: &str, count: i32, assigned: Option<&[i32]>, validate_only: bool) -> CreatePartitionsRequest {
    let assignments = assigned.map(|brokers| {
        let assignment = |broker: &i32| CreatePartitionsAssignment {
            broker_ids: vec![*broker],
            ..Default::default()
        };
        brokers.iter().map(assignment).collect()
    });
    CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: topic.into(),
            count,
            assignments,
            ..Default::default()
        }],
        validate_only,
        ..Default::default()
    }
}

pub(super) fn incremental(
    (resource_type, name): (i8, &str),
    ops: &[(&str, i8, &str)],
    validate_only: bool,
) -> IncrementalAlterConfigsRequest {
    let configs = ops.iter().map(|(name, config_operation, value)| AlterableConfig {
        name: (*name).into(),
        config_operation: *config_operation,
        value: (*config_operation != DELETE).then(|| (*value).into()),
        ..Default::default()
    });
    IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type,
            resource_name: name.into(),
            configs: configs.collect(),
            ..Default::default()
        }],
        validate_only,
        ..Default::default()
    }
}

pub(super) fn replacing((resource_type, name): (i8, &str), settings: &[(&str, &str)]) -> AlterConfigsRequest {
    let configs = settings
        .iter()
        .map(|(name, value)| alter_configs_request::AlterableConfig {
            name: (*name).into(),
            value: Some((*value).into()),
            ..Default::default()
        });
    AlterConfigsRequest {
        resources: vec![alter_configs_request::AlterConfigsResource {
            resource_type,
            resource_name: name.into(),
            configs: configs.collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

//! A broker in this process, and a client that calls it and waits.

use std::fmt::Debug;

use milena_wire::{
    compression::Codec,
    errors::ErrorCode,
    message::Request,
    messages::{
        AlterConfigsRequest, CreatePartitionsRequest, DeleteRecordsRequest, DescribeConfigsRequest,
        IncrementalAlterConfigsRequest, ListOffsetsRequest, MetadataRequest, alter_configs_request,
        create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        describe_configs_request::DescribeConfigsResource,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
    },
    records::BatchOptions,
};
use tempfile::TempDir;

use super::{DELETE, NONE};
use crate::{
    client,
    running::{self, Running},
};

/// A broker that tests of admin requests start and end.
pub(super) struct Server(Running);

impl Server {
    pub(super) fn start(dir: &TempDir) -> Self {
        Self::start_with(dir, &[])
    }

    pub(super) fn start_with(dir: &TempDir, settings: &[(&str, &str)]) -> Self {
        Self(running::start(dir.path(), settings))
    }

    pub(super) fn client(&self) -> Client {
        Client(self.0.client())
    }

    pub(super) fn stop(self) {
        self.0.shutdown();
    }

    pub(super) fn kill(self) {
        self.0.kill();
    }
}

/// The client of all tests, with admin requests.
pub(super) struct Client(client::Client);

impl Client {
    pub(super) fn call<R: Request<Response: Debug>>(&mut self, request: &R, version: i16) -> R::Response {
        self.0.call(request, version)
    }

    pub(super) fn latest<R: Request<Response: Debug>>(&mut self, request: &R) -> R::Response {
        self.call(request, R::KEY.broker_versions().unwrap().max)
    }

    pub(super) fn at_every_version<R: Request<Response: Debug>>(
        &mut self,
        request: &R,
        check: impl Fn(i16, R::Response),
    ) {
        let versions = R::KEY.broker_versions().unwrap();
        for version in versions.min..=versions.max {
            check(version, self.call(request, version));
        }
    }

    pub(super) fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        self.0.create_topic(name, partitions, configs);
    }

    /// Appends records of `size` bytes; returns the error.
    pub(super) fn produce(&mut self, topic: &str, count: usize, size: usize) -> ErrorCode {
        self.produce_with(topic, count, size, BatchOptions::default())
    }

    pub(super) fn produce_with(&mut self, topic: &str, count: usize, size: usize, options: BatchOptions) -> ErrorCode {
        let value = "x".repeat(size);
        let records = client::batch_with(&vec![value.as_str(); count], Codec::None, options);
        error(self.0.produce(topic, 0, records).error_code)
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

//! Our messages and batches before Kafka's own broker.

use std::collections::BTreeMap;

use milena_wire::{
    Uuid,
    api::ApiKey,
    compression::Codec,
    errors::ErrorCode,
    message::{Request, VersionRange},
    messages::*,
    records::BatchOptions,
};

use crate::{connection::Connection, describe::describe, sample_batches, xtask};

/// A broker for one test, stopped at its end.
struct Kafka {
    address: String,
    dir: String,
}

impl Kafka {
    fn start() -> Self {
        let dir = std::env::temp_dir().join(format!("milena-wire-outside-{}", std::process::id()));
        let dir = dir.to_str().unwrap().to_owned();
        let printed = xtask(&["kafka", "up", "--port", "19392", "--dir", &dir]);
        let address = printed.trim().to_owned();
        Self { address, dir }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        xtask(&["kafka", "wipe", "--dir", &self.dir]);
    }
}

#[test]
fn kafkas_broker_understands_us_and_we_it() {
    let kafka = Kafka::start();
    let mut connection = Connection::open(&kafka.address);
    the_version_table_is_the_brokers(&mut connection);
    every_version_of_plain_requests_is_answered(&mut connection);
    let topic_id = create_topic(&mut connection, "letters");
    for (partition, codec) in Codec::ALL.into_iter().enumerate() {
        what_is_produced_is_fetched(&mut connection, topic_id, partition as i32, codec);
    }
}

fn the_version_table_is_the_brokers(connection: &mut Connection) {
    let response = connection.call(&api_versions_request(), 4);
    assert_eq!(response.error_code, 0);
    let advertised: BTreeMap<i16, VersionRange> = response
        .api_keys
        .iter()
        .map(|api| (api.api_key, VersionRange::new(api.min_version, api.max_version)))
        .collect();
    // Kafka serves the two telemetry APIs only with a metrics reporter that takes clients' metrics; this one has none.
    let ours = ApiKey::ALL
        .into_iter()
        .filter(|key| !matches!(key, ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry))
        .filter_map(|key| Some((key.id(), key.broker_versions()?)));
    assert_eq!(ours.collect::<BTreeMap<_, _>>(), advertised);
}

fn api_versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "milena".into(),
        client_software_version: "0.1.0".into(),
        ..ApiVersionsRequest::default()
    }
}

/// Requests that need nothing set up, in all their versions.
fn every_version_of_plain_requests_is_answered(connection: &mut Connection) {
    fn sweep<R: Request>(connection: &mut Connection, request: &R) {
        for version in R::KEY.client_versions().unwrap().iter() {
            connection.call(request, version);
        }
    }
    sweep(connection, &api_versions_request());
    sweep(connection, &MetadataRequest::default());
    sweep(connection, &ListGroupsRequest::default());
    sweep(connection, &DescribeGroupsRequest::default());
    sweep(connection, &DescribeClusterRequest::default());
    sweep(connection, &DescribeConfigsRequest::default());
    sweep(connection, &DescribeLogDirsRequest::default());
    sweep(connection, &DescribeProducersRequest::default());
    sweep(connection, &ListOffsetsRequest::default());
    sweep(connection, &ListTransactionsRequest::default());
    sweep(connection, &ListConfigResourcesRequest::default());
    sweep(connection, &ListPartitionReassignmentsRequest::default());
    sweep(connection, &OffsetForLeaderEpochRequest::default());
    sweep(connection, &CreateTopicsRequest::default());
    sweep(connection, &DeleteTopicsRequest::default());
    sweep(connection, &CreatePartitionsRequest::default());
    sweep(connection, &DeleteRecordsRequest::default());
    sweep(connection, &IncrementalAlterConfigsRequest::default());
    sweep(connection, &DescribeClientQuotasRequest::default());
    sweep(connection, &DescribeUserScramCredentialsRequest::default());
    sweep(connection, &ConsumerGroupDescribeRequest::default());
    sweep(
        connection,
        &InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            ..InitProducerIdRequest::default()
        },
    );
}

/// A topic with a partition for each codec, whose leader is ready.
fn create_topic(connection: &mut Connection, name: &'static str) -> Uuid {
    let topic = create_topics_request::CreatableTopic {
        name: name.into(),
        num_partitions: Codec::ALL.len() as i32,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 30_000,
        ..Default::default()
    };
    let response = connection.call(&request, 7);
    assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    let topic_id = response.topics[0].topic_id;
    let request = MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic {
            name: Some(name.into()),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let ready = until("the topic has leaders", || {
        let response = connection.call(&request, 13);
        let topic = response.topics.first()?;
        let led = |partition: &metadata_response::MetadataResponsePartition| partition.error_code == 0;
        (topic.partitions.len() == Codec::ALL.len() && topic.partitions.iter().all(led)).then_some(topic.topic_id)
    });
    assert_eq!(ready, topic_id);
    topic_id
}

/// Retries until there is a result. A broker that has just started reports many things as missing.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    (0..10_000)
        .find_map(|_| ask())
        .unwrap_or_else(|| panic!("in vain: {what}"))
}

fn what_is_produced_is_fetched(connection: &mut Connection, topic_id: Uuid, index: i32, codec: Codec) {
    let records = sample_batches::build(codec, BatchOptions::default(), 300);
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce_request::TopicProduceData {
            topic_id,
            partition_data: vec![produce_request::PartitionProduceData {
                index,
                records: Some(records.clone()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let produced = until("the leader takes records", || {
        let mut response = connection.call(&request, 13);
        let produced = response.responses.pop()?.partition_responses.pop()?;
        let error = ErrorCode::from_code(produced.error_code)?;
        (!error.is_retriable()).then_some(produced)
    });
    assert_eq!(
        (produced.error_code, produced.base_offset),
        (0, 0),
        "{codec}: {produced:?}"
    );

    let request = FetchRequest {
        max_wait_ms: 10_000,
        min_bytes: 1,
        topics: vec![fetch_request::FetchTopic {
            topic_id,
            partitions: vec![fetch_request::FetchPartition {
                partition: index,
                partition_max_bytes: 10 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = connection.call(&request, 18);
    let fetched = &response.responses[0].partitions[0];
    assert_eq!(
        (fetched.error_code, fetched.high_watermark),
        (0, 300),
        "{codec}: {response:?}"
    );
    // The broker has set the leader epoch, which a producer does not know.
    let expected = describe(&records).replacen("batch 2 0 299 -1 ", "batch 2 0 299 0 ", 1);
    assert_eq!(describe(fetched.records.as_ref().unwrap()), expected, "{codec}");
}

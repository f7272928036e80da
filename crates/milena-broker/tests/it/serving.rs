//! The protocol as clients meet it: versions, order of responses, bad input.

use std::{fmt::Debug, sync::Arc, time::Duration};

use milena_broker::{RequestCost, Throttle};
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    message::{Request, Response},
    messages::*,
};

use crate::{
    client::{batch, fetch_request, produce_request, values},
    running::{start, start_throttled},
};

fn api_versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    }
}

/// Throttles every client for the shortest time that a response can have.
#[derive(Debug)]
struct Briefly;

impl Throttle for Briefly {
    fn throttle_time(&self, _: &RequestCost<'_>) -> Duration {
        Duration::from_millis(1)
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list: one request for each API")]
fn every_version_of_every_advertised_api_has_a_response_with_a_throttle_time() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start_throttled(Arc::new(Briefly), dir.path());
    let mut client = broker.client();
    let id = client.create_topic("letters", 2, &[]);
    client.produce("letters", 0, batch(&["first"]));
    let advertised = client.call(&api_versions_request(), 4).api_keys;
    let mut swept = vec![];
    fn sweep<R: Request>(
        client: &mut crate::client::Client,
        advertised: &[api_versions_response::ApiVersion],
        swept: &mut Vec<i16>,
        request: impl Fn(i16) -> R,
    ) where
        R::Response: Clone + PartialEq + Debug,
    {
        let api = advertised.iter().find(|api| api.api_key == R::KEY.id()).unwrap();
        for version in api.min_version.max(R::VERSIONS.min)..=api.max_version {
            let response = client.call(&request(version), version);
            if version == api.max_version {
                let mut told = response.clone();
                told.set_throttle_time_ms(1);
                assert_eq!(response, told);
            }
        }
        swept.push(api.api_key);
    }
    macro_rules! sweep {
        ($request:expr) => {
            sweep(&mut client, &advertised, &mut swept, $request)
        };
    }
    sweep!(|_| api_versions_request());
    sweep!(|_| SaslHandshakeRequest::default());
    sweep!(|_| SaslAuthenticateRequest::default());
    sweep!(|_| MetadataRequest::default());
    sweep!(|_| DescribeClusterRequest::default());
    sweep!(|_| DescribeClientQuotasRequest::default());
    sweep!(|_| AlterClientQuotasRequest::default());
    sweep!(|_| DescribeTopicPartitionsRequest {
        response_partition_limit: 100,
        ..Default::default()
    });
    sweep!(|_| InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    });
    sweep!(|_| DescribeConfigsRequest {
        resources: vec![describe_configs_request::DescribeConfigsResource {
            resource_type: 2,
            resource_name: "letters".into(),
            configuration_keys: None,
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep!(|_| ListOffsetsRequest {
        topics: vec![list_offsets_request::ListOffsetsTopic {
            name: "letters".into(),
            partitions: vec![list_offsets_request::ListOffsetsPartition {
                timestamp: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep!(|version| {
        let mut request = produce_request("letters", 0, batch(&["again"]));
        if version >= 13 {
            request.topic_data[0].topic_id = id;
        }
        request
    });
    sweep!(|version| {
        let mut request = fetch_request("letters", 0, 0);
        if version >= 13 {
            request.topics[0].topic_id = id;
        }
        request
    });
    sweep!(|version| CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: format!("made-by-{version}").into(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep!(|version| {
        let mut request = DeleteTopicsRequest::default();
        if version >= 6 {
            request.topics.push(delete_topics_request::DeleteTopicState {
                name: Some("made-by-7".into()),
                ..Default::default()
            });
        } else {
            request.topic_names.push("made-by-2".into());
        }
        request
    });
    sweep!(|_| FindCoordinatorRequest::default());
    sweep!(|_| JoinGroupRequest::default());
    sweep!(|_| SyncGroupRequest::default());
    sweep!(|_| HeartbeatRequest::default());
    sweep!(|_| LeaveGroupRequest::default());
    sweep!(|_| ConsumerGroupHeartbeatRequest::default());
    sweep!(|version| OffsetCommitRequest {
        group_id: "readers".into(),
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: if version < 10 {
                "letters".into()
            } else {
                Default::default()
            },
            topic_id: if version < 10 { Default::default() } else { id },
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep!(|version| match version {
        ..8 => OffsetFetchRequest {
            group_id: "readers".into(),
            topics: Some(vec![Default::default()]),
            ..Default::default()
        },
        _ => OffsetFetchRequest {
            groups: vec![Default::default()],
            ..Default::default()
        },
    });
    sweep!(|_| OffsetDeleteRequest::default());
    sweep!(|_| DescribeGroupsRequest {
        groups: vec!["readers".into()],
        ..Default::default()
    });
    sweep!(|_| ConsumerGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    });
    sweep!(|_| ListGroupsRequest::default());
    sweep!(|_| SaslHandshakeRequest::default());
    sweep!(|_| SaslAuthenticateRequest::default());
    sweep!(|_| DescribeUserScramCredentialsRequest::default());
    sweep!(|_| AlterUserScramCredentialsRequest::default());
    sweep!(|_| DeleteGroupsRequest {
        groups_names: vec!["readers".into()],
        ..Default::default()
    });
    sweep!(|_| AddPartitionsToTxnRequest::default());
    sweep!(|_| AddOffsetsToTxnRequest::default());
    sweep!(|_| EndTxnRequest::default());
    sweep!(|_| TxnOffsetCommitRequest::default());
    sweep!(|_| WriteTxnMarkersRequest::default());
    sweep!(|_| DescribeTransactionsRequest {
        transactional_ids: vec!["copying".into()],
        ..Default::default()
    });
    sweep!(|_| ListTransactionsRequest::default());
    swept.sort_unstable();
    let missing: Vec<i16> = advertised
        .iter()
        .map(|api| api.api_key)
        .filter(|key| !swept.contains(key))
        .collect();
    // The admin requests have tests of their own.
    let elsewhere = [21, 23, 29, 30, 31, 33, 34, 35, 37, 43, 44, 45, 46, 55, 57, 61, 64, 74];
    assert!(missing.iter().all(|key| elsewhere.contains(key)), "{missing:?}");
    let all = values(client.fetch("letters", 0, 0).records.as_ref().unwrap());
    assert_eq!(all.len(), 1 + 11, "one record for each version of Produce");
    broker.shutdown();
}

#[test]
fn an_unknown_version_of_api_versions_gets_a_response_in_version_0() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    // Key 18, version 99, correlation id 5, no client id, no tags.
    client.send_bytes(&[0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff, 0]);
    let response = client.receive::<ApiVersionsRequest>(0);
    assert_eq!(response.error_code, ErrorCode::UnsupportedVersion.code());
    assert_eq!(response.api_keys.len(), 1);
    assert_eq!(
        (response.api_keys[0].api_key, response.api_keys[0].max_version),
        (ApiKey::ApiVersions.id(), 4)
    );
    // The connection is still good.
    assert_eq!(client.call(&api_versions_request(), 3).error_code, 0);
    let bad_name = ApiVersionsRequest {
        client_software_name: "-no-".into(),
        ..api_versions_request()
    };
    assert_eq!(client.call(&bad_name, 3).error_code, ErrorCode::InvalidRequest.code());
}

#[test]
fn bad_input_ends_its_connection_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("socket.request.max.bytes", "10000")]);
    let mut witness = broker.client();
    witness.create_topic("letters", 1, &[]);
    let bad: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff, 0xff, 0xff, 0xff],
        &[0, 0, 0x27, 0x11],
        &[0, 0, 0, 2, 0, 0],
        // An API that is not served, one that does not exist, a version that does not exist, a body that is cut.
        &[0, 0, 0, 10, 0, 83, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        &[0, 0, 0, 10, 0x7f, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        &[0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff],
    ];
    for bytes in bad {
        let mut client = broker.client();
        client.send_bytes(bytes);
        assert_eq!(client.receive_frame(), None, "{bytes:?}");
    }
    assert_eq!(witness.produce("letters", 0, batch(&["still here"])).error_code, 0);
}

#[test]
fn responses_come_in_order_and_a_waiting_fetch_lets_others_begin() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let mut waiting = fetch_request("letters", 0, 0);
    waiting.max_wait_ms = 50_000;
    client.send(&waiting, 12);
    client.send(
        &produce_request("letters", 0, batch(&["wakes the fetch before it"])),
        12,
    );
    client.send(&api_versions_request(), 3);
    let fetched = client.receive::<FetchRequest>(12);
    let records = fetched.responses[0].partitions[0].records.as_ref().unwrap();
    assert_eq!(values(records), [(0, "wakes the fetch before it".to_owned())]);
    assert_eq!(
        client.receive::<ProduceRequest>(12).responses[0].partition_responses[0].error_code,
        0
    );
    assert_eq!(client.receive::<ApiVersionsRequest>(3).error_code, 0);
}

#[test]
fn requests_that_together_are_larger_than_memory_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    // Memory for one of these requests at a time.
    let broker = start(
        dir.path(),
        &[
            ("socket.request.max.bytes", "100000"),
            ("queued.max.request.bytes", "100000"),
        ],
    );
    broker.client().create_topic("letters", 1, &[]);
    let large = "x".repeat(90_000);
    let mut half_sent = broker.client();
    // Announces 100 kB, so it holds all memory, and never sends them.
    half_sent.send_bytes(&[0, 1, 0x86, 0xa0, 0, 0]);
    let writing = std::thread::spawn({
        let mut client = broker.client();
        move || client.produce("letters", 0, batch(&[&large])).base_offset
    });
    // Small requests need no memory: they are read before their length is known.
    let mut small = broker.client();
    assert_eq!(small.call(&api_versions_request(), 3).error_code, 0);
    drop(half_sent);
    assert_eq!(writing.join().unwrap(), 0);
}

/// The numbers are those of Kafka 4.3.1 without an authorizer.
#[test]
fn what_a_client_may_do_is_told_if_it_asks() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let not_asked = i32::MIN;
    for (asks, of_topic, of_cluster) in [(true, 3576, 8096), (false, not_asked, not_asked)] {
        let metadata = MetadataRequest {
            topics: None,
            include_topic_authorized_operations: asks,
            include_cluster_authorized_operations: asks,
            ..Default::default()
        };
        let response = client.call(&metadata, 10);
        assert_eq!(response.topics[0].topic_authorized_operations, of_topic);
        assert_eq!(response.cluster_authorized_operations, of_cluster);
        let cluster = DescribeClusterRequest {
            include_cluster_authorized_operations: asks,
            ..Default::default()
        };
        assert_eq!(client.call(&cluster, 2).cluster_authorized_operations, of_cluster);
    }
    let partitions = DescribeTopicPartitionsRequest {
        response_partition_limit: 10,
        ..Default::default()
    };
    let described = client.call(&partitions, 0).topics;
    assert_eq!(described[0].topic_authorized_operations, 3576);
    broker.shutdown();
}

#[test]
fn an_idle_connection_is_closed_but_not_while_a_response_is_pending() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("connections.max.idle.ms", "50")]);
    broker.client().create_topic("letters", 1, &[]);
    let mut patient = broker.client();
    let mut waits = fetch_request("letters", 0, 0);
    (waits.min_bytes, waits.max_wait_ms) = (1, 500);
    patient.send(&waits, 12);
    assert_eq!(patient.receive::<FetchRequest>(12).error_code, ErrorCode::None.code());
    assert_eq!(patient.receive_frame(), None, "closed, since nothing more was said");
}

//! Every API in every version, and every moment at which a request can panic.

use std::{fmt::Debug, panic::resume_unwind};

use milena_wire::frame;

use super::*;
use crate::handlers::{SERVED, SERVED_WITH_TELEMETRY};

fn frame_of<R: Request>(request: &R, version: i16) -> Incoming {
    let bytes = frame::encode_request(request, version, 77, None).unwrap().into_bytes();
    Incoming::parse(bytes.slice(frame::LENGTH_SIZE..), None).unwrap()
}

fn decoded<A: Response>(answer: Outgoing, version: i16) -> A {
    let bytes = answer.into_bytes().slice(frame::LENGTH_SIZE..);
    let (correlation_id, response) = frame::decode_response(&bytes, version).unwrap();
    assert_eq!(correlation_id, 77);
    response
}

fn panics<R: Request>(request: &R, version: i16) -> Option<R::Response> {
    match contained(&frame_of(request, version), || {
        resume_unwind(Box::new("as the test wants it"))
    }) {
        Handled::Reply(answer) => Some(decoded(answer, version)),
        Handled::Close(_) => None,
        _ => panic!("neither an answer nor the end"),
    }
}

fn a_produce(acks: i16) -> ProduceRequest {
    let partition = produce_request::PartitionProduceData {
        index: 3,
        records: Some(bytes::Bytes::new()),
        ..Default::default()
    };
    ProduceRequest {
        acks,
        topic_data: vec![produce_request::TopicProduceData {
            name: "letters".into(),
            partition_data: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn a_panic_is_answered_for_each_thing_that_was_asked_for() {
    for version in 3..=12 {
        let produced = panics(&a_produce(-1), version).unwrap();
        let row = &produced.responses[0].partition_responses[0];
        assert_eq!((row.index, row.error_code), (3, CODE), "version {version}");
    }
    let delete = DeleteTopicsRequest {
        topic_names: vec!["letters".into()],
        ..Default::default()
    };
    assert_eq!(panics(&delete, 5).unwrap().responses[0].error_code, CODE);
    let fetch = FetchRequest {
        topics: vec![fetch_request::FetchTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 4..=18 {
        let fetched = panics(&fetch, version).unwrap();
        assert_eq!(fetched.responses[0].partitions[0].error_code, CODE);
        assert_eq!(fetched.error_code, if version < 7 { 0 } else { CODE });
    }
}

/// Lets a request panic in every version that is served; the error must stand somewhere in the answer.
fn sweep<R: Request>(swept: &mut Vec<ApiKey>, request: impl Fn(i16) -> R)
where
    R::Response: Debug,
{
    let versions = R::KEY.broker_versions().unwrap();
    for version in versions.min.max(R::VERSIONS.min)..=versions.max {
        let answer = panics(&request(version), version);
        let answer = answer.unwrap_or_else(|| panic!("{} version {version} is not answered", R::NAME));
        let text = format!("{answer:?}");
        assert!(text.contains("error_code: -1"), "version {version}: {text}");
    }
    swept.push(R::KEY);
}

fn sweep_data(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| a_produce(-1));
    sweep(swept, |_| FetchRequest {
        topics: vec![fetch_request::FetchTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| ListOffsetsRequest {
        topics: vec![list_offsets_request::ListOffsetsTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| OffsetForLeaderEpochRequest {
        topics: vec![offset_for_leader_epoch_request::OffsetForLeaderTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| DeleteRecordsRequest {
        topics: vec![delete_records_request::DeleteRecordsTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| MetadataRequest {
        topics: Some(vec![Default::default()]),
        ..Default::default()
    });
    sweep(swept, |_| DescribeTopicPartitionsRequest {
        topics: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| DescribeProducersRequest {
        topics: vec![describe_producers_request::TopicRequest {
            partition_indexes: vec![0],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| ApiVersionsRequest::default());
}

fn sweep_groups(swept: &mut Vec<ApiKey>) {
    sweep(swept, |version| match version {
        ..4 => FindCoordinatorRequest::default(),
        _ => FindCoordinatorRequest {
            coordinator_keys: vec!["readers".into()],
            ..Default::default()
        },
    });
    sweep(swept, |_| JoinGroupRequest::default());
    sweep(swept, |_| SyncGroupRequest::default());
    sweep(swept, |_| HeartbeatRequest::default());
    sweep(swept, |_| LeaveGroupRequest::default());
    sweep(swept, |_| ConsumerGroupHeartbeatRequest::default());
    sweep(swept, |_| OffsetCommitRequest {
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |version| match version {
        ..8 => OffsetFetchRequest {
            topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopic {
                partition_indexes: vec![0],
                ..Default::default()
            }]),
            ..Default::default()
        },
        _ => OffsetFetchRequest {
            groups: vec![Default::default()],
            ..Default::default()
        },
    });
    sweep(swept, |_| OffsetDeleteRequest::default());
    sweep(swept, |_| DescribeGroupsRequest {
        groups: vec!["readers".into()],
        ..Default::default()
    });
    sweep(swept, |_| ConsumerGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    });
    sweep(swept, |_| ListGroupsRequest::default());
    sweep(swept, |_| DeleteGroupsRequest {
        groups_names: vec!["readers".into()],
        ..Default::default()
    });
}

fn sweep_transactions(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| InitProducerIdRequest::default());
    sweep(swept, |version| match version {
        ..4 => AddPartitionsToTxnRequest {
            v3_and_below_topics: vec![add_partitions_to_txn_request::AddPartitionsToTxnTopic {
                partitions: vec![0],
                ..Default::default()
            }],
            ..Default::default()
        },
        _ => AddPartitionsToTxnRequest::default(),
    });
    sweep(swept, |_| AddOffsetsToTxnRequest::default());
    sweep(swept, |_| EndTxnRequest::default());
    sweep(swept, |_| TxnOffsetCommitRequest {
        topics: vec![txn_offset_commit_request::TxnOffsetCommitRequestTopic {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| WriteTxnMarkersRequest {
        markers: vec![write_txn_markers_request::WritableTxnMarker {
            topics: vec![write_txn_markers_request::WritableTxnMarkerTopic {
                partition_indexes: vec![0],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| DescribeTransactionsRequest {
        transactional_ids: vec!["copying".into()],
        ..Default::default()
    });
    sweep(swept, |_| ListTransactionsRequest::default());
}

fn sweep_admin(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| CreateTopicsRequest {
        topics: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |version| match version {
        ..6 => DeleteTopicsRequest {
            topic_names: vec!["letters".into()],
            ..Default::default()
        },
        _ => DeleteTopicsRequest {
            topics: vec![Default::default()],
            ..Default::default()
        },
    });
    sweep(swept, |_| CreatePartitionsRequest {
        topics: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| DescribeConfigsRequest {
        resources: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| AlterConfigsRequest {
        resources: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| IncrementalAlterConfigsRequest {
        resources: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| ListConfigResourcesRequest::default());
    sweep(swept, |_| DescribeLogDirsRequest::default());
    sweep(swept, |_| DescribeClusterRequest::default());
    sweep(swept, |_| ElectLeadersRequest {
        topic_partitions: Some(vec![elect_leaders_request::TopicPartitions {
            partitions: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    });
    sweep(swept, |_| AlterPartitionReassignmentsRequest::default());
    sweep(swept, |_| ListPartitionReassignmentsRequest::default());
}

fn sweep_cluster(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| AlterReplicaLogDirsRequest {
        dirs: vec![alter_replica_log_dirs_request::AlterReplicaLogDir {
            topics: vec![alter_replica_log_dirs_request::AlterReplicaLogDirTopic {
                partitions: vec![0],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| DescribeQuorumRequest::default());
    sweep(swept, |_| UpdateFeaturesRequest::default());
    sweep(swept, |_| UnregisterBrokerRequest::default());
    sweep(swept, |_| DescribeAclsRequest::default());
    sweep(swept, |_| CreateAclsRequest {
        creations: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| DeleteAclsRequest {
        filters: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| GetTelemetrySubscriptionsRequest::default());
    sweep(swept, |_| PushTelemetryRequest::default());
}

#[test]
fn every_api_tells_of_a_panic_in_every_version() {
    let mut swept = vec![];
    sweep_data(&mut swept);
    sweep_groups(&mut swept);
    sweep_transactions(&mut swept);
    sweep_admin(&mut swept);
    sweep_cluster(&mut swept);
    let missing: Vec<_> = SERVED
        .iter()
        .chain(SERVED_WITH_TELEMETRY)
        .filter(|key| !swept.contains(key))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_panic_ends_the_connection_where_no_answer_could_tell() {
    assert!(panics(&a_produce(0), 9).is_none(), "no answer is wanted");
    let all_topics = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    assert!(panics(&all_topics, 12).is_none());
    assert_eq!(panics(&all_topics, 13).unwrap().error_code, CODE);
    assert!(panics(&DescribeTopicPartitionsRequest::default(), 0).is_none());
}

#[tokio::test]
async fn a_panic_while_waiting_is_answered_too() {
    let request = frame_of(&a_produce(-1), 12);
    let handled = contained(&request, || {
        Handled::Later(Box::pin(async {
            tokio::task::yield_now().await;
            panic!("as the test wants it")
        }))
    });
    let Handled::Later(answer) = handled else {
        panic!("not later");
    };
    let produced: ProduceResponse = decoded(answer.await.unwrap(), 12);
    assert_eq!(produced.responses[0].partition_responses[0].error_code, CODE);
}

#[tokio::test]
async fn a_panic_before_a_request_can_begin_is_answered_too() {
    let request = frame_of(&EndTxnRequest::default(), 4);
    let handled = contained(&request, || {
        Handled::First(Box::pin(async {
            tokio::task::yield_now().await;
            panic!("as the test wants it")
        }))
    });
    let Handled::First(begun) = handled else {
        panic!("not first");
    };
    let Handled::Reply(answer) = begun.await else {
        panic!("no reply");
    };
    assert_eq!(decoded::<EndTxnResponse>(answer, 4).error_code, CODE);
}

#[tokio::test]
async fn so_is_one_that_comes_when_it_has_begun_at_last() {
    let request = frame_of(&JoinGroupRequest::default(), 9);
    let later = || Handled::Later(Box::pin(async { panic!("as the test wants it") }));
    let handled = contained(&request, || Handled::First(Box::pin(async move { later() })));
    let Handled::First(begun) = handled else {
        panic!("not first");
    };
    let Handled::Later(answer) = begun.await else {
        panic!("not later");
    };
    let joined: JoinGroupResponse = decoded(answer.await.unwrap(), 9);
    assert_eq!(joined.error_code, CODE);
}

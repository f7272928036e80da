//! `Request::error_response` of every API, in every version.

use std::fmt::Debug;

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    message::{Message, Request, Response},
    messages::*,
};

const ERROR: ErrorCode = ErrorCode::UnknownServerError;

fn produce(acks: i16) -> ProduceRequest {
    ProduceRequest {
        acks,
        topic_data: vec![produce_request::TopicProduceData {
            name: "letters".into(),
            partition_data: vec![produce_request::PartitionProduceData {
                index: 3,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Checks that every version of the response can be encoded and has the error somewhere.
fn sweep<R: Request>(swept: &mut Vec<ApiKey>, request: impl Fn(i16) -> R)
where
    R::Response: Debug,
{
    for version in R::VERSIONS.iter() {
        let response = request(version).error_response(version, ERROR);
        let response = response.unwrap_or_else(|| panic!("{} version {version} has no error response", R::NAME));
        let bytes = response.encode(version).unwrap();
        let response = R::Response::decode(&bytes, version).unwrap();
        let text = format!("{response:?}");
        assert!(text.contains("error_code: -1"), "version {version}: {text}");
        let mut errors = 0;
        response.for_each_error(&mut |code| {
            assert_eq!(code, ERROR.code());
            errors += 1;
        });
        assert_eq!(
            errors,
            text.matches("error_code: -1").count(),
            "version {version}: {text}"
        );
    }
    swept.push(R::KEY);
}

fn sweep_data(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| produce(-1));
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

fn sweep_unserved(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| AddRaftVoterRequest::default());
    sweep(swept, |_| AlterShareGroupOffsetsRequest::default());
    sweep(swept, |_| CreateDelegationTokenRequest::default());
    sweep(swept, |_| DeleteShareGroupOffsetsRequest::default());
    sweep(swept, |_| DescribeClientQuotasRequest::default());
    sweep(swept, |_| DescribeDelegationTokenRequest::default());
    sweep(swept, |_| DescribeUserScramCredentialsRequest::default());
    sweep(swept, |_| ExpireDelegationTokenRequest::default());
    sweep(swept, |_| RemoveRaftVoterRequest::default());
    sweep(swept, |_| RenewDelegationTokenRequest::default());
    sweep(swept, |_| SaslAuthenticateRequest::default());
    sweep(swept, |_| SaslHandshakeRequest::default());
    sweep(swept, |_| ShareAcknowledgeRequest::default());
    sweep(swept, |_| ShareFetchRequest::default());
    sweep(swept, |_| ShareGroupHeartbeatRequest::default());
    sweep(swept, |_| StreamsGroupHeartbeatRequest::default());
    sweep(swept, |_| AlterClientQuotasRequest {
        entries: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| AlterUserScramCredentialsRequest {
        upsertions: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| StreamsGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    });
}

fn sweep_share(swept: &mut Vec<ApiKey>) {
    sweep(swept, |_| ShareGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    });
    sweep(swept, |_| DescribeShareGroupOffsetsRequest {
        groups: vec![Default::default()],
        ..Default::default()
    });
    sweep(swept, |_| InitializeShareGroupStateRequest {
        topics: vec![initialize_share_group_state_request::InitializeStateData {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| ReadShareGroupStateRequest {
        topics: vec![read_share_group_state_request::ReadStateData {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| ReadShareGroupStateSummaryRequest {
        topics: vec![read_share_group_state_summary_request::ReadStateSummaryData {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| WriteShareGroupStateRequest {
        topics: vec![write_share_group_state_request::WriteStateData {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
    sweep(swept, |_| DeleteShareGroupStateRequest {
        topics: vec![delete_share_group_state_request::DeleteStateData {
            partitions: vec![Default::default()],
            ..Default::default()
        }],
        ..Default::default()
    });
}

#[test]
fn every_api_has_an_error_response_in_every_version() {
    let mut swept = vec![];
    sweep_data(&mut swept);
    sweep_groups(&mut swept);
    sweep_transactions(&mut swept);
    sweep_admin(&mut swept);
    sweep_cluster(&mut swept);
    sweep_unserved(&mut swept);
    sweep_share(&mut swept);
    let missing: Vec<_> = ApiKey::ALL.into_iter().filter(|key| !swept.contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn an_error_is_in_the_row_of_each_partition_that_the_request_names() {
    let produced = produce(-1).error_response(12, ERROR).unwrap();
    let row = &produced.responses[0].partition_responses[0];
    assert_eq!((row.index, row.error_code), (3, ERROR.code()));
    let delete = DeleteTopicsRequest {
        topic_names: vec!["letters".into()],
        ..Default::default()
    };
    let deleted = delete.error_response(5, ERROR).unwrap();
    assert_eq!(deleted.responses[0].name.as_deref(), Some("letters"));
}

#[test]
fn an_empty_list_that_would_be_read_as_a_success_is_no_error_response() {
    assert!(
        produce(0).error_response(9, ERROR).is_none(),
        "the client reads no response"
    );
    let all_topics = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    assert!(all_topics.error_response(12, ERROR).is_none());
    assert_eq!(all_topics.error_response(13, ERROR).unwrap().error_code, ERROR.code());
    assert!(
        DescribeTopicPartitionsRequest::default()
            .error_response(0, ERROR)
            .is_none()
    );
}

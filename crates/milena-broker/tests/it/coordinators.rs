//! Groups and transactions through the wire: the drivers of the machines. Each test runs in both durability modes that
//! write to disk, because in one of them responses wait for the sync.

use bytes::Bytes;
use milena_wire::{compression::Codec, errors::ErrorCode, messages::*, records::Attributes, records::BatchOptions};

use crate::{
    client::{Client, batch, batch_with, fetch_request, produce_request, values},
    running::start,
};

const MODES: [&[(&str, &str)]; 2] = [&[("milena.durability", "os")], &[("milena.durability", "fsync")]];

/// One member joins alone and leads.
fn join(client: &mut Client, group: &str) -> JoinGroupResponse {
    let mut request = JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![join_group_request::JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"metadata"),
            ..Default::default()
        }],
        ..Default::default()
    };
    let first = client.call(&request, 9);
    assert_eq!(first.error_code, ErrorCode::MemberIdRequired.code(), "{first:?}");
    request.member_id = first.member_id;
    let joined = client.call(&request, 9);
    assert_eq!(
        (joined.error_code, &joined.leader),
        (0, &joined.member_id),
        "{joined:?}"
    );
    joined
}

fn sync(client: &mut Client, group: &str, joined: &JoinGroupResponse) -> SyncGroupResponse {
    let request = SyncGroupRequest {
        group_id: group.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![sync_group_request::SyncGroupRequestAssignment {
            member_id: joined.member_id.clone(),
            assignment: Bytes::from_static(b"all of it"),
            ..Default::default()
        }],
        ..Default::default()
    };
    client.call(&request, 5)
}

fn heartbeat(client: &mut Client, group: &str, joined: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest {
        group_id: group.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    client.call(&request, 4).error_code
}

fn commit(client: &mut Client, group: &str, joined: Option<&JoinGroupResponse>, topic: &str, offset: i64) -> i16 {
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: joined.map_or(-1, |joined| joined.generation_id),
        member_id: joined.map(|joined| joined.member_id.clone()).unwrap_or_default(),
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                committed_offset: offset,
                committed_leader_epoch: -1,
                committed_metadata: Some("as far as this".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    client.call(&request, 9).topics[0].partitions[0].error_code
}

fn committed(client: &mut Client, group: &str, topic: &str) -> (i64, i16) {
    let request = OffsetFetchRequest {
        groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
            group_id: group.into(),
            topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopics {
                name: topic.into(),
                partition_indexes: vec![0],
                ..Default::default()
            }]),
            ..Default::default()
        }],
        require_stable: true,
        ..Default::default()
    };
    let response = client.call(&request, 9);
    let partition = &response.groups[0].topics[0].partitions[0];
    (partition.committed_offset, partition.error_code)
}

#[test]
fn a_group_and_its_offsets_survive_an_end_without_warning() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let broker = start(dir.path(), mode);
        let mut client = broker.client();
        client.create_topic("letters", 1, &[]);
        let joined = join(&mut client, "readers");
        assert_eq!(sync(&mut client, "readers", &joined).assignment, "all of it");
        assert_eq!(commit(&mut client, "readers", Some(&joined), "letters", 7), 0);
        broker.kill();

        let broker = start(dir.path(), mode);
        let mut client = broker.client();
        assert_eq!(
            heartbeat(&mut client, "readers", &joined),
            0,
            "the member need not notice"
        );
        assert_eq!(committed(&mut client, "readers", "letters"), (7, 0));
        let late = JoinGroupResponse {
            generation_id: joined.generation_id - 1,
            ..joined.clone()
        };
        let refused = commit(&mut client, "readers", Some(&late), "letters", 3);
        assert_eq!(refused, ErrorCode::IllegalGeneration.code());
        assert_eq!(committed(&mut client, "readers", "letters"), (7, 0));
        broker.shutdown();
    }
}

#[test]
fn topics_go_by_their_ids_in_the_newest_versions() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let id = client.create_topic("letters", 1, &[]);
    let commit = |topic_id, partition_index| OffsetCommitRequest {
        group_id: "readers".into(),
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            topic_id,
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                partition_index,
                committed_offset: 5,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let unknown = milena_wire::Uuid::from_bytes([9; 16]);
    for (topic_id, partition, expected) in [
        (id, 0, ErrorCode::None),
        (id, 1, ErrorCode::UnknownTopicOrPartition),
        (unknown, 0, ErrorCode::UnknownTopicId),
    ] {
        let topic = client.call(&commit(topic_id, partition), 10).topics.remove(0);
        assert_eq!(
            (topic.topic_id, topic.partitions[0].error_code),
            (topic_id, expected.code())
        );
    }
    let fetch = OffsetFetchRequest {
        groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
            group_id: "readers".into(),
            topics: Some(
                [id, unknown]
                    .map(|topic_id| offset_fetch_request::OffsetFetchRequestTopics {
                        topic_id,
                        partition_indexes: vec![0],
                        ..Default::default()
                    })
                    .to_vec(),
            ),
            ..Default::default()
        }],
        ..Default::default()
    };
    let topics = client.call(&fetch, 10).groups.remove(0).topics;
    let told: Vec<_> = topics
        .iter()
        .map(|topic| {
            (
                topic.topic_id,
                topic.partitions[0].committed_offset,
                topic.partitions[0].error_code,
            )
        })
        .collect();
    assert_eq!(told, [(id, 5, 0), (unknown, -1, ErrorCode::UnknownTopicId.code())]);
    broker.shutdown();
}

/// A producer that speaks version 2 of transactions.
struct Producer {
    id: i64,
    epoch: i16,
    sequence: i32,
}

const TRANSACTION: &str = "copying";

impl Producer {
    fn init(client: &mut Client) -> Self {
        let request = InitProducerIdRequest {
            transactional_id: Some(TRANSACTION.into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let response = client.call(&request, 5);
        assert_eq!(response.error_code, 0, "{response:?}");
        Self {
            id: response.producer_id,
            epoch: response.producer_epoch,
            sequence: 0,
        }
    }

    fn send(&mut self, client: &mut Client, version: i16, text: &str) -> i16 {
        let options = BatchOptions {
            attributes: Attributes::default().with_transactional(true),
            producer_id: self.id,
            producer_epoch: self.epoch,
            base_sequence: self.sequence,
            ..Default::default()
        };
        let mut request = produce_request("letters", 0, batch_with(&[text], Codec::None, options));
        request.transactional_id = Some(TRANSACTION.into());
        let error = client.call(&request, version).responses[0].partition_responses[0].error_code;
        self.sequence += i32::from(error == 0);
        error
    }

    fn commit_offset(&self, client: &mut Client, offset: i64) -> i16 {
        let request = TxnOffsetCommitRequest {
            transactional_id: TRANSACTION.into(),
            group_id: "readers".into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            generation_id: -1,
            topics: vec![txn_offset_commit_request::TxnOffsetCommitRequestTopic {
                name: "letters".into(),
                partitions: vec![txn_offset_commit_request::TxnOffsetCommitRequestPartition {
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        client.call(&request, 5).topics[0].partitions[0].error_code
    }

    fn end(&mut self, client: &mut Client, committed: bool) {
        let request = EndTxnRequest {
            transactional_id: TRANSACTION.into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
            ..Default::default()
        };
        let response = client.call(&request, 5);
        assert_eq!(response.error_code, 0, "{response:?}");
        (self.id, self.epoch, self.sequence) = (response.producer_id, response.producer_epoch, 0);
    }
}

/// The values that a read-committed consumer gets: those of batches that are not aborted.
fn read_committed(client: &mut Client) -> Vec<String> {
    let mut seen = vec![];
    let mut offset = 0;
    loop {
        let mut request = fetch_request("letters", 0, offset);
        request.isolation_level = 1;
        let data = client.call(&request, 12).responses.remove(0).partitions.remove(0);
        let aborted = data.aborted_transactions.unwrap_or_default();
        let is_aborted = |offset: i64| aborted.iter().any(|aborted| aborted.first_offset == offset);
        let records = values(data.records.as_ref().unwrap());
        let Some((last, _)) = records.last() else {
            return seen;
        };
        offset = last + 1;
        // Markers are records too; their values are no text that these tests write.
        let letters = records.into_iter().filter(|(_, value)| value.starts_with("letter"));
        seen.extend(
            letters
                .filter(|(offset, _)| !is_aborted(*offset))
                .map(|(_, value)| value),
        );
    }
}

#[test]
fn a_transaction_is_seen_whole_or_not_at_all() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let broker = start(dir.path(), mode);
        let mut client = broker.client();
        client.create_topic("letters", 1, &[]);
        let mut producer = Producer::init(&mut client);
        assert_eq!(producer.send(&mut client, 12, "letter 1"), 0);
        assert_eq!(producer.commit_offset(&mut client, 11), 0);
        assert_eq!(read_committed(&mut client), [""; 0]);
        let unstable = ErrorCode::UnstableOffsetCommit.code();
        assert_eq!(committed(&mut client, "readers", "letters").1, unstable);
        producer.end(&mut client, true);
        assert_eq!(read_committed(&mut client), ["letter 1"]);
        assert_eq!(committed(&mut client, "readers", "letters"), (11, 0));

        assert_eq!(producer.send(&mut client, 12, "letter 2"), 0);
        assert_eq!(producer.commit_offset(&mut client, 12), 0);
        producer.end(&mut client, false);
        assert_eq!(read_committed(&mut client), ["letter 1"]);
        assert_eq!(committed(&mut client, "readers", "letters"), (11, 0));
        broker.shutdown();
    }
}

#[test]
fn an_open_transaction_survives_a_kill_and_a_new_producer_ends_it() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let broker = start(dir.path(), mode);
        let mut client = broker.client();
        client.create_topic("letters", 1, &[]);
        let mut zombie = Producer::init(&mut client);
        assert_eq!(zombie.send(&mut client, 12, "letter 1"), 0);
        assert_eq!(zombie.commit_offset(&mut client, 11), 0);
        broker.kill();

        let broker = start(dir.path(), mode);
        let mut client = broker.client();
        let request = InitProducerIdRequest {
            transactional_id: Some(TRANSACTION.into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let first = client.call(&request, 5);
        assert_eq!(
            first.error_code,
            ErrorCode::ConcurrentTransactions.code(),
            "it aborts first"
        );
        let mut next = loop {
            let response = client.call(&request, 5);
            if response.error_code == 0 {
                break Producer {
                    id: response.producer_id,
                    epoch: response.producer_epoch,
                    sequence: 0,
                };
            }
        };
        assert!(next.epoch > zombie.epoch);
        let fenced = zombie.send(&mut client, 12, "letter from the grave");
        assert_eq!(fenced, ErrorCode::InvalidProducerEpoch.code());
        assert_eq!(committed(&mut client, "readers", "letters"), (-1, 0));
        assert_eq!(next.send(&mut client, 12, "letter 2"), 0);
        next.end(&mut client, true);
        assert_eq!(read_committed(&mut client), ["letter 2"]);
        broker.shutdown();
    }
}

#[test]
fn a_write_outside_the_transaction_is_refused_in_terms_that_its_version_knows() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let mut producer = Producer::init(&mut client);
    // The partition was not added, and these versions do not add it.
    for (version, expected) in [(10, ErrorCode::InvalidTxnState), (11, ErrorCode::TransactionAbortable)] {
        assert_eq!(
            producer.send(&mut client, version, "letter"),
            expected.code(),
            "version {version}"
        );
    }
    let add = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: TRANSACTION.into(),
        v3_and_below_producer_id: producer.id,
        v3_and_below_producer_epoch: producer.epoch,
        v3_and_below_topics: vec![
            add_partitions_to_txn_request::AddPartitionsToTxnTopic {
                name: "letters".into(),
                partitions: vec![0],
                ..Default::default()
            },
            add_partitions_to_txn_request::AddPartitionsToTxnTopic {
                name: "nowhere".into(),
                partitions: vec![0],
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    let refused = client.call(&add, 3).results_by_topic_v3_and_below;
    let errors: Vec<i16> = refused
        .iter()
        .map(|topic| topic.results_by_partition[0].partition_error_code)
        .collect();
    let expected = [ErrorCode::OperationNotAttempted, ErrorCode::UnknownTopicOrPartition];
    assert_eq!(errors, expected.map(ErrorCode::code), "all or nothing");
    let mut add = add;
    add.v3_and_below_topics.pop();
    let added = client.call(&add, 3).results_by_topic_v3_and_below;
    assert_eq!(added[0].results_by_partition[0].partition_error_code, 0);
    assert_eq!(producer.send(&mut client, 10, "letter"), 0);

    let mut without_id = produce_request("letters", 0, batch(&["x"]));
    without_id.topic_data[0].partition_data[0].records = Some(batch_with(
        &["x"],
        Codec::None,
        BatchOptions {
            attributes: Attributes::default().with_transactional(true),
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence: 1,
            ..Default::default()
        },
    ));
    let refused = client.call(&without_id, 12).responses[0].partition_responses[0].error_code;
    assert_eq!(refused, ErrorCode::TransactionalIdAuthorizationFailed.code());
    broker.shutdown();
}

#[test]
fn the_topics_of_the_coordinators_are_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    assert_eq!(commit(&mut client, "readers", None, "letters", 1), 0);
    let invalid = ErrorCode::InvalidTopicException.code();
    assert_eq!(
        client.produce("__consumer_offsets", 0, batch(&["x"])).error_code,
        invalid
    );
    let delete = DeleteTopicsRequest {
        topic_names: vec!["__consumer_offsets".into()],
        ..Default::default()
    };
    assert_eq!(client.call(&delete, 5).responses[0].error_code, invalid);
    let grow = CreatePartitionsRequest {
        topics: vec![create_partitions_request::CreatePartitionsTopic {
            name: "__consumer_offsets".into(),
            count: 60,
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&grow, 3).results[0].error_code, invalid);
    broker.shutdown();
}

//! Names that a coordinator keeps are copies: a slice would keep the frame of its request in memory.

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    group::GroupRequest,
    transaction::{ProducerEpoch, TransactionRequest},
};
use milena_wire::messages::*;

/// A frame, and slices of it in place of names and bytes.
struct Frame(Bytes);

impl Frame {
    fn new() -> Self {
        Self(Bytes::from(vec![b'x'; 1 << 20]))
    }

    fn name(&self) -> ByteString {
        ByteString::try_from(self.0.slice(..5)).unwrap()
    }

    fn bytes(&self) -> Bytes {
        self.0.slice(..5)
    }

    /// Checks that the frame is kept by nothing but itself.
    #[track_caller]
    fn check_free(self) {
        assert!(self.0.is_unique());
    }
}

#[test]
fn requests_of_members_do_not_keep_their_frames() {
    let frame = Frame::new();
    let join = JoinGroupRequest {
        group_id: frame.name(),
        member_id: frame.name(),
        group_instance_id: Some(frame.name()),
        protocol_type: frame.name(),
        protocols: vec![join_group_request::JoinGroupRequestProtocol {
            name: frame.name(),
            metadata: frame.bytes(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let GroupRequest::Join(kept) = GroupRequest::Join(join.clone()).detached() else {
        panic!("not a join");
    };
    assert_eq!(kept, join);
    drop(join);
    frame.check_free();

    let frame = Frame::new();
    let sync = SyncGroupRequest {
        assignments: vec![sync_group_request::SyncGroupRequestAssignment {
            member_id: frame.name(),
            assignment: frame.bytes(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let kept = GroupRequest::Sync(sync).detached();
    frame.check_free();
    drop(kept);

    let frame = Frame::new();
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: frame.name(),
        member_id: frame.name(),
        instance_id: Some(frame.name()),
        rack_id: Some(frame.name()),
        server_assignor: Some(frame.name()),
        subscribed_topic_names: Some(vec![frame.name()]),
        subscribed_topic_regex: Some(frame.name()),
        ..Default::default()
    };
    let kept = GroupRequest::ConsumerHeartbeat(heartbeat).detached();
    frame.check_free();
    drop(kept);
}

#[test]
fn committed_offsets_do_not_keep_their_frames() {
    let frame = Frame::new();
    let commit = OffsetCommitRequest {
        group_id: frame.name(),
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: frame.name(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                committed_metadata: Some(frame.name()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let kept = GroupRequest::OffsetCommit(commit).detached();
    frame.check_free();
    drop(kept);

    let frame = Frame::new();
    let commit = TxnOffsetCommitRequest {
        group_id: frame.name(),
        topics: vec![txn_offset_commit_request::TxnOffsetCommitRequestTopic {
            name: frame.name(),
            partitions: vec![txn_offset_commit_request::TxnOffsetCommitRequestPartition {
                committed_metadata: Some(frame.name()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let kept = GroupRequest::TxnOffsetCommit(commit).detached();
    frame.check_free();
    drop(kept);
}

#[test]
fn transactional_ids_do_not_keep_their_frames() {
    let producer = ProducerEpoch {
        producer_id: 1,
        epoch: 0,
    };
    let requests: [fn(&Frame, ProducerEpoch) -> TransactionRequest; 4] = [
        |frame, _| {
            TransactionRequest::InitProducerId(InitProducerIdRequest {
                transactional_id: Some(frame.name()),
                ..Default::default()
            })
        },
        |frame, producer| TransactionRequest::AddPartitions {
            transactional_id: frame.name(),
            producer,
            partitions: vec![TopicPartition {
                topic: frame.name(),
                partition: 0,
            }],
            verify_only: false,
        },
        |frame, producer| TransactionRequest::AddOffsets {
            transactional_id: frame.name(),
            producer,
            partition: TopicPartition {
                topic: "__consumer_offsets".into(),
                partition: 0,
            },
        },
        |frame, _| {
            TransactionRequest::End(EndTxnRequest {
                transactional_id: frame.name(),
                ..Default::default()
            })
        },
    ];
    for request in requests {
        let frame = Frame::new();
        let kept = request(&frame, producer).detached();
        frame.check_free();
        drop(kept);
    }
}

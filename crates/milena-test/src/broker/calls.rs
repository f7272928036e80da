//! Direct requests of a test to the broker, without a client.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use milena_wire::{
    frame,
    message::Request,
    messages::{
        ConsumerGroupDescribeRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
        DescribeGroupsRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest,
        create_partitions_request, create_topics_request, delete_topics_request, leave_group_request,
        offset_commit_request, offset_fetch_request, produce_request,
    },
    records::BatchOptions,
};

use super::{TestBroker, TestRecord, record::encode_batch};

/// Longer than any response of the broker in this process takes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const FRAME_BYTES_MAX: usize = 1 << 30;

/// A member of a group, as the broker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    pub member_id: String,
    pub client_id: String,
    /// Group instance id of a static member.
    pub instance_id: Option<String>,
}

impl TestBroker {
    /// Creates a topic. Panics if there is one of this name.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.create_topic_with(name, partitions, &[]);
    }

    /// The same with settings of the topic.
    pub fn create_topic_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let settings = settings
            .iter()
            .map(|(name, value)| create_topics_request::CreatableTopicConfig {
                name: (*name).into(),
                value: Some((*value).into()),
                ..Default::default()
            });
        let topic = create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: settings.collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let created = self.call(&request, 7);
        assert!(
            created.topics.iter().all(|topic| topic.error_code == 0),
            "the topic {name} was not created: {created:?}"
        );
    }

    /// Increases the partitions of a topic to this number.
    pub fn create_partitions(&self, topic: &str, partitions: i32) {
        let request = CreatePartitionsRequest {
            topics: vec![create_partitions_request::CreatePartitionsTopic {
                name: topic.into(),
                count: partitions,
                assignments: None,
                ..Default::default()
            }],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let created = self.call(&request, 3);
        assert!(
            created.results.iter().all(|topic| topic.error_code == 0),
            "{topic} did not get its partitions: {created:?}"
        );
    }

    pub fn delete_topic(&self, name: &str) {
        let topic = delete_topics_request::DeleteTopicState {
            name: Some(name.into()),
            ..Default::default()
        };
        let request = DeleteTopicsRequest {
            topics: vec![topic],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let deleted = self.call(&request, 6);
        assert!(
            deleted.responses.iter().all(|topic| topic.error_code == 0),
            "the topic {name} was not deleted: {deleted:?}"
        );
    }

    /// Appends records as one batch. Returns the offset of the first.
    pub fn produce<R: Into<TestRecord>>(
        &self,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = R>,
    ) -> i64 {
        let records: Vec<TestRecord> = records.into_iter().map(Into::into).collect();
        self.produce_batch(topic, partition, encode_batch(BatchOptions::default(), &records))
    }

    /// Appends batches unchanged: compressed, transactional, in any form that the broker accepts. Returns the
    /// offset of the first record.
    pub fn produce_batch(&self, topic: &str, partition: i32, batch: Bytes) -> i64 {
        let data = produce_request::PartitionProduceData {
            index: partition,
            records: Some(batch),
            ..Default::default()
        };
        let topic_data = produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![data],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic_data],
            ..Default::default()
        };
        let produced = self.call(&request, 12);
        let response = produced
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first());
        match response {
            Some(response) if response.error_code == 0 => response.base_offset,
            _ => panic!("nothing was appended to partition {partition} of {topic}: {produced:?}"),
        }
    }

    /// The members of a group of either protocol.
    pub fn group_members(&self, group: &str) -> Vec<GroupMember> {
        let request = DescribeGroupsRequest {
            groups: vec![group.into()],
            ..Default::default()
        };
        let classic = self
            .call(&request, 5)
            .groups
            .into_iter()
            .flat_map(|group| group.members);
        let classic = classic.map(|member| GroupMember {
            member_id: member.member_id.to_string(),
            client_id: member.client_id.to_string(),
            instance_id: member.group_instance_id.map(|id| id.to_string()),
        });
        let request = ConsumerGroupDescribeRequest {
            group_ids: vec![group.into()],
            ..Default::default()
        };
        let modern = self
            .call(&request, 0)
            .groups
            .into_iter()
            .flat_map(|group| group.members);
        let modern = modern.map(|member| GroupMember {
            member_id: member.member_id.to_string(),
            client_id: member.client_id.to_string(),
            instance_id: member.instance_id.map(|id| id.to_string()),
        });
        classic.chain(modern).collect()
    }

    /// Removes a member from its group, as after a session timeout. It learns that from its next response.
    pub fn remove_member(&self, group: &str, member_id: &str) {
        let member = leave_group_request::MemberIdentity {
            member_id: member_id.into(),
            ..Default::default()
        };
        let request = LeaveGroupRequest {
            group_id: group.into(),
            members: vec![member],
            ..Default::default()
        };
        let left = self.call(&request, 5);
        let mut members = left.members.iter();
        assert!(
            left.error_code == 0 && members.all(|member| member.error_code == 0),
            "{member_id} was not removed from {group}: {left:?}"
        );
    }

    /// The offset that a group has committed for a partition.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let topics = offset_fetch_request::OffsetFetchRequestTopics {
            name: topic.into(),
            partition_indexes: vec![partition],
            ..Default::default()
        };
        let request = OffsetFetchRequest {
            groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
                group_id: group.into(),
                topics: Some(vec![topics]),
                ..Default::default()
            }],
            ..Default::default()
        };
        let fetched = self.call(&request, 8);
        let topics = fetched.groups.iter().flat_map(|group| &group.topics);
        let mut partitions = topics.flat_map(|topic| &topic.partitions);
        let committed = partitions.find(|told| told.partition_index == partition);
        match committed {
            Some(told) if told.error_code == 0 => Some(told.committed_offset).filter(|offset| *offset >= 0),
            _ => panic!("the broker does not tell what {group} has committed: {fetched:?}"),
        }
    }

    /// Sets the offset that a group has committed. The group must have no members.
    pub fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        let partition = offset_commit_request::OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.into(),
            generation_id_or_member_epoch: -1,
            topics: vec![offset_commit_request::OffsetCommitRequestTopic {
                name: topic.into(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = self.call(&request, 8);
        let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        assert!(
            partitions.all(|told| told.error_code == 0),
            "the offset of {group} was not committed: {response:?}"
        );
    }

    /// Sends any request, past all faults, and waits for its response.
    pub fn call<R: Request>(&self, request: &R, version: i16) -> R::Response {
        let response = self.try_call(request, version);
        response.unwrap_or_else(|error| panic!("the broker does not response {} version {version}: {error}", R::NAME))
    }

    fn try_call<R: Request>(&self, request: &R, version: i16) -> io::Result<R::Response> {
        let client_id = "milena-test".into();
        let frame = frame::encode_request(request, version, 0, Some(&client_id)).map_err(io::Error::other)?;
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        stream.write_all(&frame.into_bytes())?;
        let mut prefix = [0; frame::LENGTH_SIZE];
        stream.read_exact(&mut prefix)?;
        let mut response = vec![0; frame::frame_length(prefix, FRAME_BYTES_MAX).map_err(io::Error::other)?];
        stream.read_exact(&mut response)?;
        let decoded = frame::decode_response::<R::Response>(&response.into(), version);
        Ok(decoded.map_err(io::Error::other)?.1)
    }
}

//! A member of a classic group that does as little as possible.

use std::{collections::BTreeMap, thread, time::Duration};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    messages::*,
    prefixed::{decode_newest, encode_versioned},
};

use crate::raw::{Connection, encode};

const JOIN: i16 = 9;
const SYNC: i16 = 5;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;
/// Error codes of a coordinator that is starting: not available, loading, not the coordinator.
const NOT_YET: [i16; 3] = [14, 15, 16];

pub struct Member {
    pub connection: Connection,
    group: ByteString,
    topic: ByteString,
    partitions: i32,
    id: ByteString,
    pub generation: i32,
}

impl Member {
    pub fn new(address: &str, group: &str, topic: &str, partitions: i32) -> Result<Self> {
        Ok(Self {
            connection: Connection::open_for(address, 1 << 20)?,
            group: group.into(),
            topic: topic.into(),
            partitions,
            id: ByteString::new(),
            generation: -1,
        })
    }

    /// Sends FindCoordinator until there is one.
    pub fn find_coordinator(&mut self) -> Result<()> {
        let request = FindCoordinatorRequest {
            coordinator_keys: vec![self.group.clone()],
            ..Default::default()
        };
        loop {
            let error = self.connection.call(&request, 4)?.coordinators[0].error_code;
            if error == 0 {
                return Ok(());
            }
            ensure!(NOT_YET.contains(&error), "no coordinator: error {error}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Joins and syncs until there is an assignment; returns the partitions.
    pub fn join(&mut self) -> Result<Vec<i32>> {
        loop {
            self.send_join()?;
            let Some(joined) = self.receive_join()? else {
                continue;
            };
            self.send_sync(&joined)?;
            if let Some(partitions) = self.receive_sync()? {
                return Ok(partitions);
            }
        }
    }

    pub fn send_join(&mut self) -> Result<()> {
        let subscription = ConsumerProtocolSubscription {
            topics: vec![self.topic.clone()],
            ..Default::default()
        };
        let request = JoinGroupRequest {
            group_id: self.group.clone(),
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            member_id: self.id.clone(),
            group_instance_id: None,
            protocol_type: "consumer".into(),
            protocols: vec![join_group_request::JoinGroupRequestProtocol {
                name: "range".into(),
                metadata: encode_versioned(&subscription, 3)?,
                ..Default::default()
            }],
            ..Default::default()
        };
        self.connection.send(&encode(&request, JOIN)?)
    }

    /// `None` if the member must join again: it has just got its id, or the coordinator was not ready.
    pub fn receive_join(&mut self) -> Result<Option<JoinGroupResponse>> {
        let joined = self.connection.answer::<JoinGroupRequest>(JOIN)?;
        match joined.error_code {
            0 => {
                self.generation = joined.generation_id;
                return Ok(Some(joined));
            }
            MEMBER_ID_REQUIRED => self.id = joined.member_id,
            error if NOT_YET.contains(&error) => thread::sleep(Duration::from_millis(1)),
            error => bail!("cannot join: error {error}"),
        }
        Ok(None)
    }

    pub fn send_sync(&mut self, joined: &JoinGroupResponse) -> Result<()> {
        let assignments = if joined.leader == self.id {
            self.assign(joined)?
        } else {
            vec![]
        };
        let request = SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: None,
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments,
            ..Default::default()
        };
        self.connection.send(&encode(&request, SYNC)?)
    }

    /// The partitions, or `None` if the member must join again.
    pub fn receive_sync(&mut self) -> Result<Option<Vec<i32>>> {
        let synced = self.connection.answer::<SyncGroupRequest>(SYNC)?;
        match synced.error_code {
            0 => Ok(Some(partitions_of(&synced.assignment)?)),
            REBALANCE_IN_PROGRESS => Ok(None),
            error => bail!("cannot sync: error {error}"),
        }
    }

    /// One partition after the other to one member after the other.
    fn assign(&self, joined: &JoinGroupResponse) -> Result<Vec<sync_group_request::SyncGroupRequestAssignment>> {
        let mut shares: BTreeMap<&ByteString, Vec<i32>> = joined
            .members
            .iter()
            .map(|member| (&member.member_id, vec![]))
            .collect();
        for partition in 0..self.partitions {
            let place = partition as usize % shares.len();
            if let Some(share) = shares.values_mut().nth(place) {
                share.push(partition);
            }
        }
        let assignments = shares.into_iter().map(|(member_id, partitions)| {
            let assignment = ConsumerProtocolAssignment {
                assigned_partitions: vec![consumer_protocol_assignment::TopicPartition {
                    topic: self.topic.clone(),
                    partitions,
                }],
                ..Default::default()
            };
            Ok(sync_group_request::SyncGroupRequestAssignment {
                member_id: member_id.clone(),
                assignment: encode_versioned(&assignment, 3)?,
                ..Default::default()
            })
        });
        assignments.collect()
    }

    /// Whether the member must join again.
    pub fn heartbeat(&mut self) -> Result<bool> {
        match self.connection.call(&self.heartbeat_request(), 4)?.error_code {
            0 => Ok(false),
            REBALANCE_IN_PROGRESS => Ok(true),
            error => bail!("a heartbeat was refused: error {error}"),
        }
    }

    pub fn heartbeat_request(&self) -> HeartbeatRequest {
        HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: None,
            ..Default::default()
        }
    }

    pub fn commit_request(&self, offset: i64) -> OffsetCommitRequest {
        OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            group_instance_id: None,
            topics: vec![offset_commit_request::OffsetCommitRequestTopic {
                name: self.topic.clone(),
                partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                    committed_offset: offset,
                    committed_metadata: Some(ByteString::new()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    /// Reads the committed offset, as every consumer does before its first fetch, and then a record.
    pub fn read_first(&mut self, partition: i32) -> Result<()> {
        let request = OffsetFetchRequest {
            groups: vec![offset_fetch_request::OffsetFetchRequestGroup {
                group_id: self.group.clone(),
                member_id: None,
                member_epoch: -1,
                topics: Some(vec![offset_fetch_request::OffsetFetchRequestTopics {
                    name: self.topic.clone(),
                    partition_indexes: vec![partition],
                    ..Default::default()
                }]),
                ..Default::default()
            }],
            ..Default::default()
        };
        let fetched = self.connection.call(&request, 9)?;
        ensure!(
            fetched.groups[0].error_code == 0,
            "no offsets: error {}",
            fetched.groups[0].error_code
        );
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 1 << 20,
            topics: vec![fetch_request::FetchTopic {
                topic: self.topic.clone(),
                partitions: vec![fetch_request::FetchPartition {
                    partition,
                    fetch_offset: 0,
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.connection.call(&request, 11)?;
        let records = answer.responses[0].partitions[0].records.as_ref();
        ensure!(records.is_some_and(|records| !records.is_empty()), "there is no record");
        Ok(())
    }
}

fn partitions_of(assignment: &Bytes) -> Result<Vec<i32>> {
    if assignment.is_empty() {
        return Ok(vec![]);
    }
    let assignment: ConsumerProtocolAssignment = decode_newest(assignment)?;
    Ok(assignment
        .assigned_partitions
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .collect())
}

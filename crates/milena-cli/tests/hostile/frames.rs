//! Frames: requests that Kafka's classes wrote and requests about things that exist, damaged.

use bytes::{Bytes, BytesMut};
use milena_wire::{api::ApiKey, compression::Codec, frame, message::Request, messages::*, records::BatchOptions};

use crate::{
    client::{batch, batch_with, fetch_request, produce_request},
    random::Random,
    vectors,
};

/// Name of topics, groups, transactions and keys in Kafka's vectors.
pub const TOPIC: &str = "name";

/// Frames without damage, length included.
pub struct Frames {
    all: Vec<Bytes>,
}

impl Frames {
    pub fn new() -> Self {
        let mut all = vec![];
        for vector in vectors::messages() {
            let key = ApiKey::ALL
                .into_iter()
                .find(|key| vector.name == format!("{}Request", key.name()));
            if let Some(key) = key {
                all.push(with_header(key, vector.version, &vector.bytes));
            }
        }
        // Those that reach deeper are as many as the others.
        let live = live();
        let copies = all.len() / live.len();
        for _ in 0..copies {
            all.extend(live.iter().cloned());
        }
        Self { all }
    }

    /// A frame, mostly damaged.
    pub fn next(&self, random: &mut Random) -> Bytes {
        match random.number(0..10) {
            0 => random_frame(random),
            1 => self.any(random).clone(),
            _ => damage(self.any(random), random),
        }
    }

    pub fn any(&self, random: &mut Random) -> &Bytes {
        &self.all[random.number(0..self.all.len())]
    }
}

/// A request with its header and length, whatever the body is.
fn with_header(key: ApiKey, version: i16, body: &Bytes) -> Bytes {
    let mut header = BytesMut::new();
    header.extend_from_slice(&key.id().to_be_bytes());
    header.extend_from_slice(&version.to_be_bytes());
    header.extend_from_slice(&7_i32.to_be_bytes());
    header.extend_from_slice(&4_i16.to_be_bytes());
    header.extend_from_slice(b"evil");
    if key.request_header_version(version) == 2 {
        header.extend_from_slice(&[0]);
    }
    let length = u32::try_from(header.len() + body.len()).unwrap();
    [&length.to_be_bytes()[..], &header, body].concat().into()
}

fn random_frame(random: &mut Random) -> Bytes {
    let length = random.number(0..400);
    let mut bytes = BytesMut::new();
    bytes.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    for _ in 0..length {
        bytes.extend_from_slice(&[random.number(0..256) as u8]);
    }
    // Otherwise nearly all would end at an unknown API.
    if length > 4 && random.number(0..4) > 0 {
        bytes[4] = 0;
        bytes[5] = random.number(0..96) as u8;
        bytes[6] = 0;
        bytes[7] = random.number(0..20) as u8;
    }
    bytes.freeze()
}

/// Damage after the length: counts that promise too much, small and large numbers, random, missing and repeated bytes.
fn damage(frame: &Bytes, random: &mut Random) -> Bytes {
    let mut bytes = BytesMut::from(&frame[4..]);
    for _ in 0..random.number(1..4) {
        if bytes.is_empty() {
            break;
        }
        let place = random.number(0..bytes.len());
        let with = |bytes: &mut BytesMut, new: &[u8]| {
            bytes[place..].iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
        };
        match random.number(0..9) {
            0 => bytes[place] = random.number(0..256) as u8,
            1 => with(&mut bytes, &[0xff; 4]),
            2 => with(&mut bytes, &[0x7f, 0xff, 0xff, 0xff]),
            3 => with(&mut bytes, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            4 => with(&mut bytes, &[0; 8]),
            5 => with(&mut bytes, &[0, 0, 0, random.number(0..5) as u8]),
            6 => bytes.truncate(place),
            7 => {
                let tail = bytes.split_off(place);
                bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
                bytes.extend_from_slice(&tail);
            }
            _ => {
                let again = bytes[place..].to_vec();
                bytes.extend_from_slice(&again);
            }
        }
    }
    // A rare length that is not true: it makes a half frame, or garbage of the next one.
    let length = match random.number(0..200) {
        0 => bytes.len() + random.number(1..1000),
        1 => bytes.len() / 2,
        _ => bytes.len(),
    };
    [&u32::try_from(length).unwrap().to_be_bytes()[..], &bytes]
        .concat()
        .into()
}

/// Adds a request in all versions that the broker serves.
fn add<R: Request>(all: &mut Vec<Bytes>, request: &R) {
    let Some(versions) = R::KEY.broker_versions() else {
        return;
    };
    for version in versions.iter() {
        // A version that lacks a field of the request is left out.
        if let Ok(frame) = frame::encode_request(request, version, 7, Some(&"evil".into())) {
            all.push(frame.into_bytes());
        }
    }
}

/// Requests about the topic that exists, and groups and transactions that they create.
fn live() -> Vec<Bytes> {
    let mut all = vec![];
    records(&mut all);
    groups(&mut all);
    transactions(&mut all);
    topics(&mut all);
    all
}

fn records(all: &mut Vec<Bytes>) {
    let values: Vec<String> = (0..20).map(|number| format!("value {number}")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for codec in Codec::ALL {
        let records = batch_with(&values, codec, BatchOptions::default());
        add(all, &produce_request(TOPIC, 0, records));
    }
    let mut no_response = produce_request(TOPIC, 1, batch(&["a"]));
    no_response.acks = 0;
    add(all, &no_response);
    let sequenced = BatchOptions {
        producer_id: 1,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    add(
        all,
        &produce_request(TOPIC, 2, batch_with(&["a"], Codec::None, sequenced)),
    );
    add(all, &fetch_request(TOPIC, 0, 0));
    let mut waiting = fetch_request(TOPIC, 1, 0);
    (waiting.max_wait_ms, waiting.min_bytes) = (500, 1 << 20);
    add(all, &waiting);
    let session = FetchRequest {
        session_epoch: 0,
        ..fetch_request(TOPIC, 2, 0)
    };
    add(all, &session);
}

fn groups(all: &mut Vec<Bytes>) {
    let join = JoinGroupRequest {
        group_id: "name".into(),
        session_timeout_ms: 6000,
        rebalance_timeout_ms: 500,
        protocol_type: "consumer".into(),
        protocols: vec![join_group_request::JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"\0\x01\0\0\0\x01\0\x04name\xff\xff\xff\xff"),
            ..Default::default()
        }],
        ..Default::default()
    };
    add(all, &join);
    add(
        all,
        &HeartbeatRequest {
            group_id: "name".into(),
            ..Default::default()
        },
    );
    add(
        all,
        &ConsumerGroupHeartbeatRequest {
            group_id: "consumers".into(),
            member_id: "member".into(),
            rebalance_timeout_ms: 1000,
            subscribed_topic_names: Some(vec![TOPIC.into()]),
            topic_partitions: Some(vec![]),
            ..Default::default()
        },
    );
    add(
        all,
        &OffsetCommitRequest {
            group_id: "offsets".into(),
            generation_id_or_member_epoch: -1,
            topics: vec![offset_commit_request::OffsetCommitRequestTopic {
                name: TOPIC.into(),
                partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                    committed_offset: 1,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        },
    );
}

fn transactions(all: &mut Vec<Bytes>) {
    add(
        all,
        &InitProducerIdRequest {
            transactional_id: Some("name".into()),
            transaction_timeout_ms: 1000,
            ..Default::default()
        },
    );
    add(all, &InitProducerIdRequest::default());
    add(
        all,
        &EndTxnRequest {
            transactional_id: "name".into(),
            producer_id: 1,
            committed: true,
            ..Default::default()
        },
    );
}

fn topics(all: &mut Vec<Bytes>) {
    add(all, &MetadataRequest::default());
    add(all, &ApiVersionsRequest::default());
    add(
        all,
        &CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: TOPIC.into(),
                num_partitions: 4,
                replication_factor: 1,
                ..Default::default()
            }],
            timeout_ms: 1000,
            ..Default::default()
        },
    );
    add(
        all,
        &ListOffsetsRequest {
            replica_id: -1,
            topics: vec![list_offsets_request::ListOffsetsTopic {
                name: TOPIC.into(),
                partitions: vec![list_offsets_request::ListOffsetsPartition {
                    timestamp: -1,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        },
    );
}

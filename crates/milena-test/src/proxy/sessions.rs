//! Fetch sessions, so that rules see all partitions of an incremental fetch.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::ApiKey,
    frame::{self, RequestFrame},
    messages::{
        FetchRequest, FetchResponse,
        fetch_request::{FetchPartition, FetchTopic},
    },
};

type Partitions = BTreeMap<(ByteString, Uuid, i32), FetchPartition>;

#[derive(Debug, Default)]
pub(super) struct Sessions {
    sessions: BTreeMap<i32, Partitions>,
}

impl Sessions {
    /// The request with all partitions of its session. Other requests stay unchanged.
    pub(super) fn complete(&mut self, request: RequestFrame) -> RequestFrame {
        let Some(mut fetch) = fetch(&request).filter(|fetch| fetch.session_epoch > 0) else {
            return request;
        };
        let Some(known) = self.sessions.get_mut(&fetch.session_id) else {
            return request;
        };
        for topic in &fetch.forgotten_topics_data {
            for partition in &topic.partitions {
                known.remove(&(topic.topic.clone(), topic.topic_id, *partition));
            }
        }
        known.extend(partitions(&fetch));
        fetch.topics = known
            .iter()
            .map(|((topic, topic_id, _), partition)| FetchTopic {
                topic: topic.clone(),
                topic_id: *topic_id,
                partitions: vec![partition.clone()],
                ..Default::default()
            })
            .collect();
        encode(&request, &fetch)
    }

    /// Stores the session that a full fetch has begun.
    pub(super) fn note_response(&mut self, request: &RequestFrame, frame_bytes: &bytes::Bytes) {
        let Some(fetch) = fetch(request).filter(|fetch| fetch.session_epoch == 0) else {
            return;
        };
        let frame_bytes = frame_bytes.slice(frame::LENGTH_SIZE..);
        if let Ok((_, response)) = frame::decode_response::<FetchResponse>(&frame_bytes, request.version)
            && response.session_id != 0
        {
            self.sessions.insert(response.session_id, partitions(&fetch).collect());
        }
    }
}

fn fetch(request: &RequestFrame) -> Option<FetchRequest> {
    (request.key == ApiKey::Fetch).then(|| request.body().ok()).flatten()
}

fn partitions(fetch: &FetchRequest) -> impl Iterator<Item = ((ByteString, Uuid, i32), FetchPartition)> {
    fetch.topics.iter().flat_map(|topic| {
        let key = |partition: i32| (topic.topic.clone(), topic.topic_id, partition);
        topic
            .partitions
            .iter()
            .map(move |partition| (key(partition.partition), partition.clone()))
    })
}

fn encode(like: &RequestFrame, request: &FetchRequest) -> RequestFrame {
    let encoded = frame::encode_request(request, like.version, like.correlation_id, like.client_id.as_ref());
    let frame = encoded.expect("a request that was read can be written").into_bytes();
    RequestFrame::parse(frame.slice(frame::LENGTH_SIZE..)).expect("a request that was written can be read")
}

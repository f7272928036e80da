//! The client's half of a fetch session.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        FetchRequest, FetchResponse,
        fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
    },
};

use crate::TopicPartition;

/// A partition to read and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPartition<Tag> {
    pub partition: TopicPartition,
    /// `None` if no broker has told.
    pub topic_id: Option<Uuid>,
    pub offset: i64,
    pub leader_epoch: i32,
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
    /// Comes back with the answer.
    pub tag: Tag,
}

/// Why an answer cannot be used. The session begins anew with the next request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("the broker refused the fetch: {code}")]
    Refused { code: ErrorCode },
    #[error("the broker answered for {partition}, which the fetch did not ask for")]
    NotRequested { partition: String },
}

/// A session with one broker (KIP-227): only what changes is said. One request at a time.
#[derive(Debug)]
pub struct FetchSession<Tag> {
    /// 0 if there is none.
    id: i32,
    /// Of the next request.
    epoch: i32,
    uses_ids: bool,
    partitions: BTreeMap<TopicPartition, SessionPartition<Tag>>,
    names: BTreeMap<Uuid, ByteString>,
}

impl<Tag> Default for FetchSession<Tag> {
    fn default() -> Self {
        Self {
            id: 0,
            epoch: 0,
            uses_ids: false,
            partitions: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }
}

impl<Tag: Copy> FetchSession<Tag> {
    /// Whether a request with ids can be sent: every partition must have one.
    fn can_use_ids(wanted: &[SessionPartition<Tag>]) -> bool {
        wanted.iter().all(|wanted| wanted.topic_id.is_some())
    }

    /// Fills in session, partitions and what is forgotten. Returns the newest version that can carry it, if that is less
    /// than any.
    pub fn build(&mut self, wanted: Vec<SessionPartition<Tag>>, request: &mut FetchRequest) -> Option<i16> {
        let uses_ids = Self::can_use_ids(&wanted);
        if uses_ids != self.uses_ids {
            // A session speaks of topics in one way only.
            self.reopen();
            self.uses_ids = uses_ids;
        }
        request.session_id = self.id;
        request.session_epoch = self.epoch;
        let is_full = self.epoch == 0;
        let old = std::mem::take(&mut self.partitions);
        self.names.clear();
        for wanted in &wanted {
            if let Some(id) = wanted.topic_id {
                self.names.insert(id, wanted.partition.topic.clone());
            }
            let known = old.get(&wanted.partition);
            if is_full || known.is_none_or(|known| known.is_said_differently(wanted)) {
                push_wanted(&mut request.topics, wanted);
            }
        }
        self.partitions = wanted
            .into_iter()
            .map(|wanted| (wanted.partition.clone(), wanted))
            .collect();
        if !is_full {
            for gone in old.values() {
                let stays = self.partitions.get(&gone.partition);
                if stays.is_none_or(|stays| stays.topic_id != gone.topic_id) {
                    push_forgotten(&mut request.forgotten_topics_data, gone);
                }
            }
        }
        (!uses_ids).then_some(versions::fetch::TOPIC_IDS - 1)
    }

    /// Whether the last request asked for anything.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The partition that a part of the answer is about, as it was asked for.
    pub fn requested(&self, topic: &ByteString, topic_id: Uuid, partition: i32) -> Option<&SessionPartition<Tag>> {
        let topic = if self.uses_ids {
            self.names.get(&topic_id)?
        } else {
            topic
        };
        let topic = topic.clone();
        self.partitions.get(&TopicPartition { topic, partition })
    }

    /// What was asked for last.
    pub fn partitions(&self) -> impl Iterator<Item = &SessionPartition<Tag>> {
        self.partitions.values()
    }

    /// Judges an answer as a whole. Its parts count only if this is fine.
    pub fn handle_response(&mut self, response: &FetchResponse) -> Result<(), SessionError> {
        let code = ErrorCode::from_code(response.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if code != ErrorCode::None {
            if code == ErrorCode::FetchSessionIdNotFound {
                self.id = 0;
            }
            self.reopen();
            return Err(SessionError::Refused { code });
        }
        if let Some(partition) = self.stranger(response) {
            self.reopen();
            return Err(SessionError::NotRequested { partition });
        }
        self.epoch = match (response.session_id, self.epoch) {
            (0, _) => 0,
            (_, i32::MAX) => 1,
            (_, epoch) => epoch + 1,
        };
        self.id = response.session_id;
        Ok(())
    }

    /// There was no answer: the broker may have taken the request or not.
    pub fn handle_failure(&mut self) {
        self.reopen();
    }

    /// The request that ends the session at the broker; `None` if there is none.
    pub fn close(&mut self) -> Option<FetchRequest> {
        let id = std::mem::take(&mut self.id);
        self.epoch = 0;
        self.partitions.clear();
        (id != 0).then(|| FetchRequest {
            session_id: id,
            session_epoch: -1,
            ..Default::default()
        })
    }

    /// The next request says everything; the broker lets go of the old session with it.
    fn reopen(&mut self) {
        self.epoch = 0;
    }

    fn stranger(&self, response: &FetchResponse) -> Option<String> {
        let mut all = response.responses.iter().flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(move |partition| (topic, partition.partition_index))
        });
        all.find(|(topic, partition)| self.requested(&topic.topic, topic.topic_id, *partition).is_none())
            .map(|(topic, partition)| {
                let name = self.names.get(&topic.topic_id).unwrap_or(&topic.topic);
                format!("{name}-{partition} (id {})", topic.topic_id)
            })
    }
}

impl<Tag> SessionPartition<Tag> {
    fn is_said_differently(&self, other: &Self) -> bool {
        let said = |wanted: &Self| {
            let Self {
                topic_id,
                offset,
                leader_epoch,
                last_fetched_epoch,
                max_bytes,
                ..
            } = wanted;
            (*topic_id, *offset, *leader_epoch, *last_fetched_epoch, *max_bytes)
        };
        said(self) != said(other)
    }
}

fn push_wanted<Tag>(topics: &mut Vec<FetchTopic>, wanted: &SessionPartition<Tag>) {
    let partition = FetchPartition {
        partition: wanted.partition.partition,
        current_leader_epoch: wanted.leader_epoch,
        fetch_offset: wanted.offset,
        last_fetched_epoch: wanted.last_fetched_epoch,
        partition_max_bytes: wanted.max_bytes,
        ..Default::default()
    };
    let (topic, topic_id) = (&wanted.partition.topic, wanted.topic_id.unwrap_or_default());
    match topics.last_mut() {
        Some(last) if last.topic == *topic && last.topic_id == topic_id => last.partitions.push(partition),
        _ => topics.push(FetchTopic {
            topic: topic.clone(),
            topic_id,
            partitions: vec![partition],
            ..Default::default()
        }),
    }
}

fn push_forgotten<Tag>(topics: &mut Vec<ForgottenTopic>, gone: &SessionPartition<Tag>) {
    let (topic, topic_id) = (&gone.partition.topic, gone.topic_id.unwrap_or_default());
    match topics.last_mut() {
        Some(last) if last.topic == *topic && last.topic_id == topic_id => {
            last.partitions.push(gone.partition.partition)
        }
        _ => topics.push(ForgottenTopic {
            topic: topic.clone(),
            topic_id,
            partitions: vec![gone.partition.partition],
            ..Default::default()
        }),
    }
}

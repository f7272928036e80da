//! The client's half of a fetch session (KIP-227).

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        FetchRequest, FetchResponse,
        fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
    },
};

use crate::TopicPartition;

/// A partition of a fetch request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPartition<Tag> {
    pub partition: TopicPartition,
    /// `None` if no broker has named it.
    pub topic_id: Option<Uuid>,
    pub offset: i64,
    pub leader_epoch: i32,
    pub last_fetched_epoch: i32,
    pub max_bytes: i32,
    /// Returned with the response; the driver's own.
    pub tag: Tag,
}

/// A response that cannot be used. The next request opens a new session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("the broker refused the fetch: {code}")]
    Refused { code: ErrorCode },
    #[error("the fetch response has {partition}, which was not requested")]
    NotRequested { partition: String },
}

/// A session with one broker: requests contain only the partitions that changed. One request is in flight at a time.
#[derive(Debug)]
pub struct FetchSession<Tag> {
    /// 0 without a session.
    id: i32,
    /// The epoch of the next request.
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
    /// Whether a request with topic ids can be sent: every partition must have one.
    fn can_use_ids(requested: &[SessionPartition<Tag>]) -> bool {
        requested.iter().all(|requested| requested.topic_id.is_some())
    }

    /// Fills in the session, the partitions and the forgotten partitions of a request.
    ///
    /// Without an id for every topic, the names are used. The caller limits the version of such a request, before it is
    /// chosen, to those below `versions::fetch::TOPIC_IDS`.
    pub fn build(&mut self, requested: Vec<SessionPartition<Tag>>, request: &mut FetchRequest) {
        let uses_ids = Self::can_use_ids(&requested);
        if uses_ids != self.uses_ids {
            // A session uses ids or names, never both.
            self.reopen();
            self.uses_ids = uses_ids;
        }
        request.session_id = self.id;
        request.session_epoch = self.epoch;
        let is_full = self.epoch == 0;
        let old = std::mem::take(&mut self.partitions);
        self.names.clear();
        for requested in &requested {
            if let Some(id) = requested.topic_id {
                self.names.insert(id, requested.partition.topic.clone());
            }
            let known = old.get(&requested.partition);
            if is_full || known.is_none_or(|known| known.differs(requested)) {
                push_partition(&mut request.topics, requested);
            }
        }
        self.partitions = requested
            .into_iter()
            .map(|requested| (requested.partition.clone(), requested))
            .collect();
        if !is_full {
            for gone in old.values() {
                let kept = self.partitions.get(&gone.partition);
                if kept.is_none_or(|kept| kept.topic_id != gone.topic_id) {
                    push_forgotten(&mut request.forgotten_topics_data, gone);
                }
            }
        }
    }

    /// Whether the last request had no partitions.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The partition that a row of the response is about, as it was requested.
    pub fn requested(&self, topic: &ByteString, topic_id: Uuid, partition: i32) -> Option<&SessionPartition<Tag>> {
        let topic = if self.uses_ids {
            self.names.get(&topic_id)?
        } else {
            topic
        };
        let topic = topic.clone();
        self.partitions.get(&TopicPartition { topic, partition })
    }

    /// The partitions of the last request.
    pub fn partitions(&self) -> impl Iterator<Item = &SessionPartition<Tag>> {
        self.partitions.values()
    }

    /// Checks the response as a whole. Its rows count only after `Ok`.
    pub fn handle_response(&mut self, response: &FetchResponse) -> Result<(), SessionError> {
        let code = ErrorCode::from_code(response.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if code != ErrorCode::None {
            if code == ErrorCode::FetchSessionIdNotFound {
                self.id = 0;
            }
            self.reopen();
            return Err(SessionError::Refused { code });
        }
        if let Some(partition) = self.unrequested(response) {
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

    /// Handles a request without a response: the broker may have seen it or not.
    pub fn handle_failure(&mut self) {
        self.reopen();
    }

    /// The request that closes the session at the broker; `None` without a session.
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

    /// The next request contains all partitions; the broker drops the old session with it.
    fn reopen(&mut self) {
        self.epoch = 0;
    }

    fn unrequested(&self, response: &FetchResponse) -> Option<String> {
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
    fn differs(&self, other: &Self) -> bool {
        let fields = |requested: &Self| {
            let Self {
                topic_id,
                offset,
                leader_epoch,
                last_fetched_epoch,
                max_bytes,
                ..
            } = requested;
            (*topic_id, *offset, *leader_epoch, *last_fetched_epoch, *max_bytes)
        };
        fields(self) != fields(other)
    }
}

fn push_partition<Tag>(topics: &mut Vec<FetchTopic>, requested: &SessionPartition<Tag>) {
    let partition = FetchPartition {
        partition: requested.partition.partition,
        current_leader_epoch: requested.leader_epoch,
        fetch_offset: requested.offset,
        last_fetched_epoch: requested.last_fetched_epoch,
        partition_max_bytes: requested.max_bytes,
        ..Default::default()
    };
    let (topic, topic_id) = (&requested.partition.topic, requested.topic_id.unwrap_or_default());
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

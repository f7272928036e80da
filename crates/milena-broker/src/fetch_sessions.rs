//! Fetch sessions (KIP-227): requests and responses name only the partitions that changed.
//!
//! A machine without clock or socket. [`FetchSessions::begin`] takes a request and returns the partitions to read;
//! [`FetchSessions::finish`] takes the rows that were read and removes those that did not change. A fetch may wait in
//! between, and the session may be evicted or advance meanwhile; the response is then an error.

mod session;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{FetchRequest, fetch_request::FetchTopic, fetch_response::PartitionData},
};

use session::Session;

/// A session that is idle for longer may be evicted for any other.
const EVICTION_MS: i64 = 120_000;
/// The epoch that requests a new session, and the one that requests none.
const EPOCH_NEW: i32 = 0;
const EPOCH_NONE: i32 = -1;

/// The key of a topic in a request: its name, or its id and an empty name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct TopicKey {
    pub(crate) name: ByteString,
    pub(crate) id: Uuid,
}

impl TopicKey {
    fn new(name: &ByteString, id: Uuid, version: i16) -> Self {
        if version >= versions::fetch::TOPIC_IDS {
            return Self {
                name: ByteString::new(),
                id,
            };
        }
        Self {
            name: name.clone(),
            id: Uuid::ZERO,
        }
    }

    /// A copy that does not keep the frame of the request in memory.
    fn detached(&self) -> Self {
        Self {
            name: ByteString::from(&*self.name),
            id: self.id,
        }
    }
}

/// The fetch of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionFetch {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) bytes_max: i32,
    pub(crate) leader_epoch: i32,
    /// The epoch of the last record that the client has; negative if it is unknown.
    pub(crate) last_fetched_epoch: i32,
    /// Its rank in the session.
    rank: u64,
}

/// The relation of a fetch to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionContext {
    Sessionless,
    /// The response begins a session.
    Full {
        uses_topic_ids: bool,
    },
    /// The response has the rows that changed, if the session still expects this epoch next.
    Incremental {
        id: i32,
        next_epoch: i32,
    },
}

/// A fetch that was accepted, with its partitions in the order they are read.
#[derive(Debug)]
pub(crate) struct SessionFetch {
    pub(crate) context: SessionContext,
    pub(crate) requested: Vec<PartitionFetch>,
}

/// The part of a response that is about the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionResult {
    pub(crate) error: ErrorCode,
    /// 0 for no session.
    pub(crate) session_id: i32,
}

impl SessionResult {
    pub(crate) const SESSIONLESS: Self = Self {
        error: ErrorCode::None,
        session_id: 0,
    };
}

#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    sessions: HashMap<i32, Session>,
    /// The number of partitions of all sessions.
    partitions: usize,
    /// `milena.max.fetch.session.partitions`: each costs about 200 bytes, while naming one costs a client 30.
    partitions_max: usize,
    /// The state of the generator of session ids.
    random: u64,
}

impl FetchSessions {
    /// Creates the machine for at most `slots` sessions with `partitions_max` partitions in all; their ids follow from the seed.
    pub(crate) fn new(slots: usize, partitions_max: usize, seed: u64) -> Self {
        Self {
            slots,
            sessions: HashMap::new(),
            partitions: 0,
            partitions_max,
            random: seed,
        }
    }

    /// Accepts a fetch: closes, finds or changes the session that it names.
    pub(crate) fn begin(
        &mut self,
        request: &FetchRequest,
        version: i16,
        now_ms: i64,
    ) -> Result<SessionFetch, ErrorCode> {
        let uses_topic_ids = version >= versions::fetch::TOPIC_IDS;
        let named = || {
            request
                .topics
                .iter()
                .flat_map(|topic| partition_fetch_of(topic, version))
        };
        match request.session_epoch {
            EPOCH_NEW | EPOCH_NONE => {
                self.remove(request.session_id);
                let context = match request.session_epoch {
                    EPOCH_NEW => SessionContext::Full { uses_topic_ids },
                    _ => SessionContext::Sessionless,
                };
                let requested = named().collect();
                Ok(SessionFetch { context, requested })
            }
            epoch => {
                let session = self.sessions.get_mut(&request.session_id);
                let session = session.ok_or(ErrorCode::FetchSessionIdNotFound)?;
                session.check(epoch, uses_topic_ids)?;
                let before = session.len();
                session.update(request, version);
                let after = session.len();
                self.partitions = self.partitions + after - before;
                if after == 0 || self.partitions > self.partitions_max {
                    self.remove(request.session_id);
                    if after > 0 {
                        // The client then sends a full fetch, and gets a response without a session.
                        return Err(ErrorCode::FetchSessionIdNotFound);
                    }
                    let (context, requested) = (SessionContext::Sessionless, named().collect());
                    return Ok(SessionFetch { context, requested });
                }
                session.accept(now_ms);
                let context = SessionContext::Incremental {
                    id: request.session_id,
                    next_epoch: session.epoch,
                };
                let requested = session.requested();
                Ok(SessionFetch { context, requested })
            }
        }
    }

    /// Completes a response. `rows` has one row for each of `requested`; rows that need not be sent become `None`.
    pub(crate) fn finish(
        &mut self,
        context: SessionContext,
        requested: &[PartitionFetch],
        rows: &mut [Option<PartitionData>],
        now_ms: i64,
    ) -> SessionResult {
        let (error, session_id) = match context {
            SessionContext::Sessionless => return SessionResult::SESSIONLESS,
            SessionContext::Full { uses_topic_ids } => {
                let id = self.create(Session::new(uses_topic_ids, requested, rows, now_ms), now_ms);
                (ErrorCode::None, id)
            }
            SessionContext::Incremental { id, next_epoch } => match self.sessions.get_mut(&id) {
                None => (ErrorCode::FetchSessionIdNotFound, 0),
                Some(session) if session.epoch != next_epoch => (ErrorCode::InvalidFetchSessionEpoch, id),
                Some(session) => {
                    session.leave_out_unchanged(requested, rows);
                    (ErrorCode::None, id)
                }
            },
        };
        if error != ErrorCode::None {
            rows.fill(None);
        }
        SessionResult { error, session_id }
    }

    /// Completes an empty response of a throttled client, which changes nothing in the session.
    pub(crate) fn keep(&self, context: SessionContext) -> SessionResult {
        let SessionContext::Incremental { id, next_epoch } = context else {
            return SessionResult::SESSIONLESS;
        };
        let (error, session_id) = match self.sessions.get(&id) {
            None => (ErrorCode::FetchSessionIdNotFound, 0),
            Some(session) if session.epoch != next_epoch => (ErrorCode::InvalidFetchSessionEpoch, id),
            Some(_) => (ErrorCode::None, id),
        };
        SessionResult { error, session_id }
    }

    /// Stores a session if there is room for it; returns its id, or 0.
    fn create(&mut self, session: Session, now_ms: i64) -> i32 {
        let has_slot = self.sessions.len() < self.slots || self.evict(session.len(), now_ms);
        if !has_slot || self.partitions + session.len() > self.partitions_max {
            return 0;
        }
        let id = self.new_id();
        self.partitions += session.len();
        self.sessions.insert(id, session);
        id
    }

    /// Evicts the session that was idle for longest, if that is long enough; else the smallest old one, if it is smaller than
    /// the new one.
    fn evict(&mut self, size: usize, now_ms: i64) -> bool {
        let idle = self.sessions.iter().min_by_key(|(id, idle)| (idle.last_used_ms, **id));
        let idle = idle.filter(|(_, idle)| now_ms - idle.last_used_ms > EVICTION_MS);
        let gone = idle.or_else(|| {
            let old = self.sessions.iter().filter(|(_, old)| old.age_ms() > EVICTION_MS);
            let smallest = old.min_by_key(|(id, old)| (old.len(), **id));
            smallest.filter(|(_, smallest)| smallest.len() < size)
        });
        let gone = gone.map(|(id, _)| *id);
        gone.is_some_and(|id| self.remove(id))
    }

    fn remove(&mut self, id: i32) -> bool {
        let removed = self.sessions.remove(&id);
        self.partitions -= removed.as_ref().map_or(0, Session::len);
        removed.is_some()
    }

    /// Returns a positive id that no session has. Ids are random, so that a client of an earlier run does not hit a session of
    /// another client.
    fn new_id(&mut self) -> i32 {
        loop {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let id = (mixed >> 33) as i32;
            if id > 0 && !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

fn partition_fetch_of(topic: &FetchTopic, version: i16) -> impl Iterator<Item = PartitionFetch> {
    let key = TopicKey::new(&topic.topic, topic.topic_id, version);
    topic.partitions.iter().map(move |partition| PartitionFetch {
        topic: key.clone(),
        partition: partition.partition,
        offset: partition.fetch_offset,
        bytes_max: partition.partition_max_bytes,
        leader_epoch: partition.current_leader_epoch,
        last_fetched_epoch: partition.last_fetched_epoch,
        rank: 0,
    })
}

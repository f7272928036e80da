//! Fetch sessions: what each consumer reads, so that it need not say so with every fetch and hears only of changes.
//!
//! This is a plain machine: it knows no clock and no socket. [`FetchSessions::begin`] takes a request and says what to
//! read; [`FetchSessions::finish`] takes what was read and leaves out what the client knows already. In between a
//! fetch may wait, and the session may go or move on; then its answer is an error.

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

/// A session that is idle for longer gives way to any other, and a younger one to none but idle ones' successors.
const EVICTION_MS: i64 = 120_000;
/// Partitions of all sessions together. Each costs about 200 bytes, and naming one in a request costs a client 30.
const PARTITIONS_MAX: usize = 500_000;
/// The epoch that asks for a new session, and the one that asks for none.
const EPOCH_NEW: i32 = 0;
const EPOCH_NONE: i32 = -1;
/// A topic as the client calls it: by name, or by id and an empty name.
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

    /// A copy that does not keep the request's frame in memory.
    fn detached(&self) -> Self {
        Self {
            name: ByteString::from(&*self.name),
            id: self.id,
        }
    }
}

/// One partition that a fetch asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) bytes_max: i32,
    pub(crate) leader_epoch: i32,
    /// The epoch of the last record that the client has; negative if it does not say.
    pub(crate) last_fetched_epoch: i32,
    /// Where its session keeps it.
    place: u64,
}

/// What a fetch is to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Sessionless,
    /// Its answer begins a session.
    Full {
        uses_topic_ids: bool,
    },
    /// Its answer tells what changed in the session, if the session still expects this epoch next.
    Incremental {
        id: i32,
        next_epoch: i32,
    },
}

/// Begun: what to read, in this order.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) context: Context,
    pub(crate) wanted: Vec<Wanted>,
}

/// What an answer says about its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) error: ErrorCode,
    /// 0 for no session.
    pub(crate) session_id: i32,
}

impl Finished {
    pub(crate) const SESSIONLESS: Self = Self {
        error: ErrorCode::None,
        session_id: 0,
    };
}

#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    sessions: HashMap<i32, Session>,
    /// Of all sessions together.
    partitions: usize,
    partitions_max: usize,
    /// Where the next session id comes from.
    random: u64,
}

impl FetchSessions {
    /// Room for so many sessions; their ids follow from the seed.
    pub(crate) fn new(slots: usize, seed: u64) -> Self {
        Self {
            slots,
            sessions: HashMap::new(),
            partitions: 0,
            partitions_max: PARTITIONS_MAX,
            random: seed,
        }
    }

    /// Accepts a fetch: closes, finds or changes the session it names.
    pub(crate) fn begin(&mut self, request: &FetchRequest, version: i16, now_ms: i64) -> Result<Begun, ErrorCode> {
        let uses_topic_ids = version >= versions::fetch::TOPIC_IDS;
        let named = || request.topics.iter().flat_map(|topic| wanted_of(topic, version));
        match request.session_epoch {
            EPOCH_NEW | EPOCH_NONE => {
                self.remove(request.session_id);
                let context = match request.session_epoch {
                    EPOCH_NEW => Context::Full { uses_topic_ids },
                    _ => Context::Sessionless,
                };
                let wanted = named().collect();
                Ok(Begun { context, wanted })
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
                        // The client then asks with a full fetch, and is told that there is no room for a session.
                        return Err(ErrorCode::FetchSessionIdNotFound);
                    }
                    let (context, wanted) = (Context::Sessionless, named().collect());
                    return Ok(Begun { context, wanted });
                }
                session.accept(now_ms);
                let context = Context::Incremental {
                    id: request.session_id,
                    next_epoch: session.epoch,
                };
                let wanted = session.wanted();
                Ok(Begun { context, wanted })
            }
        }
    }

    /// Completes an answer. `rows` are what was read for each of `wanted`; those that need not be sent become `None`.
    pub(crate) fn finish(
        &mut self,
        context: Context,
        wanted: &[Wanted],
        rows: &mut [Option<PartitionData>],
        now_ms: i64,
    ) -> Finished {
        let (error, session_id) = match context {
            Context::Sessionless => return Finished::SESSIONLESS,
            Context::Full { uses_topic_ids } => {
                let id = self.create(Session::new(uses_topic_ids, wanted, rows, now_ms), now_ms);
                (ErrorCode::None, id)
            }
            Context::Incremental { id, next_epoch } => match self.sessions.get_mut(&id) {
                None => (ErrorCode::FetchSessionIdNotFound, 0),
                Some(session) if session.epoch != next_epoch => (ErrorCode::InvalidFetchSessionEpoch, id),
                Some(session) => {
                    session.leave_out_unchanged(wanted, rows);
                    (ErrorCode::None, id)
                }
            },
        };
        if error != ErrorCode::None {
            rows.fill(None);
        }
        Finished { error, session_id }
    }

    /// Keeps a session if there is room for it; gives its id, or 0.
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

    /// Removes the session that was idle for longest, if that is long; else the smallest old one, if it is smaller than
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

    /// A positive id that no session has. Ids are spread out, so that a client of an earlier broker does not meet a
    /// session of another.
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

fn wanted_of(topic: &FetchTopic, version: i16) -> impl Iterator<Item = Wanted> {
    let key = TopicKey::new(&topic.topic, topic.topic_id, version);
    topic.partitions.iter().map(move |partition| Wanted {
        topic: key.clone(),
        partition: partition.partition,
        offset: partition.fetch_offset,
        bytes_max: partition.partition_max_bytes,
        leader_epoch: partition.current_leader_epoch,
        last_fetched_epoch: partition.last_fetched_epoch,
        place: 0,
    })
}

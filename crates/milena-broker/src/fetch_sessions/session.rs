//! One session: its partitions in the order they are read, with the state that the client has of each.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use milena_wire::{errors::ErrorCode, messages::FetchRequest, messages::fetch_response::PartitionData};

use super::{PartitionFetch, TopicKey, partition_fetch_of};

/// The offset that a client has after an error, or before the first row.
const UNKNOWN: i64 = -1;

#[derive(Debug)]
pub(super) struct Session {
    uses_topic_ids: bool,
    /// The epoch that the next request must have.
    pub(super) epoch: i32,
    created_ms: i64,
    pub(super) last_used_ms: i64,
    /// By rank. A partition that had records moves to the end, so that none starves.
    partitions: BTreeMap<u64, CachedPartition>,
    ranks: HashMap<(TopicKey, i32), u64>,
    next_rank: u64,
    /// The topic of the last partition that was added; the next one is most likely of the same topic and shares its name.
    topic: TopicKey,
}

#[derive(Debug)]
struct CachedPartition {
    requested: PartitionFetch,
    high_watermark: i64,
    log_start_offset: i64,
}

impl Session {
    /// Creates a session that begins with this response.
    pub(super) fn new(
        uses_topic_ids: bool,
        requested: &[PartitionFetch],
        rows: &[Option<PartitionData>],
        now_ms: i64,
    ) -> Self {
        let mut session = Self {
            uses_topic_ids,
            epoch: 1,
            created_ms: now_ms,
            last_used_ms: now_ms,
            partitions: BTreeMap::new(),
            ranks: HashMap::with_capacity(requested.len()),
            next_rank: 0,
            topic: TopicKey::default(),
        };
        for (requested, row) in requested.iter().zip(rows) {
            if let (Some(cached), Some(row)) = (session.put(requested.clone()), row) {
                cached.update(row);
            }
        }
        session
    }

    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// The age of the session when it was last used.
    pub(super) fn age_ms(&self) -> i64 {
        self.last_used_ms - self.created_ms
    }

    /// Checks that a request may use this session.
    pub(super) fn check(&self, epoch: i32, uses_topic_ids: bool) -> Result<(), ErrorCode> {
        if epoch != self.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if uses_topic_ids != self.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        Ok(())
    }

    /// Adds, changes and forgets the partitions that a request names.
    pub(super) fn update(&mut self, request: &FetchRequest, version: i16) {
        for requested in request
            .topics
            .iter()
            .flat_map(|topic| partition_fetch_of(topic, version))
        {
            self.put(requested);
        }
        for topic in &request.forgotten_topics_data {
            let key = TopicKey::new(&topic.topic, topic.topic_id, version);
            for partition in &topic.partitions {
                if let Some(rank) = self.ranks.remove(&(key.clone(), *partition)) {
                    self.partitions.remove(&rank);
                }
            }
        }
    }

    /// Advances the epoch after a request was accepted; it is never 0 again.
    pub(super) fn accept(&mut self, now_ms: i64) {
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        self.last_used_ms = now_ms;
    }

    /// Returns all partitions, in the order they are read.
    pub(super) fn requested(&self) -> Vec<PartitionFetch> {
        self.partitions
            .values()
            .map(|cached| cached.requested.clone())
            .collect()
    }

    /// Removes rows that did not change from a response, and stores the state that the client gets.
    pub(super) fn leave_out_unchanged(&mut self, requested: &[PartitionFetch], rows: &mut [Option<PartitionData>]) {
        for (requested, row) in requested.iter().zip(rows) {
            let (Some(data), Some(cached)) = (&row, self.partitions.get_mut(&requested.rank)) else {
                continue;
            };
            let has_records = data.records.as_ref().is_some_and(|records: &Bytes| !records.is_empty());
            let is_changed = cached.update(data);
            if has_records {
                self.move_to_end(requested.rank);
            } else if !is_changed {
                *row = None;
            }
        }
    }

    /// Adds a partition at the end, or changes its fetch.
    fn put(&mut self, mut requested: PartitionFetch) -> Option<&mut CachedPartition> {
        let mut key = (requested.topic, requested.partition);
        if let Some(rank) = self.ranks.get(&key) {
            let cached = self.partitions.get_mut(rank)?;
            (requested.topic, requested.rank) = (cached.requested.topic.clone(), *rank);
            cached.requested = requested;
            return Some(cached);
        }
        if self.topic != key.0 {
            // The name is a slice of the request's frame, which must not stay in memory with it.
            self.topic = key.0.detached();
        }
        key.0 = self.topic.clone();
        requested.topic = self.topic.clone();
        requested.rank = self.next_rank;
        self.next_rank += 1;
        self.ranks.insert(key, requested.rank);
        let cached = CachedPartition {
            high_watermark: UNKNOWN,
            log_start_offset: UNKNOWN,
            requested,
        };
        Some(self.partitions.entry(cached.requested.rank).or_insert(cached))
    }

    fn move_to_end(&mut self, rank: u64) {
        let Some(mut cached) = self.partitions.remove(&rank) else {
            return;
        };
        cached.requested.rank = self.next_rank;
        let key = (cached.requested.topic.clone(), cached.requested.partition);
        self.ranks.insert(key, self.next_rank);
        self.partitions.insert(self.next_rank, cached);
        self.next_rank += 1;
    }
}

impl CachedPartition {
    /// Whether a row changes the state of the client, which is stored.
    fn update(&mut self, data: &PartitionData) -> bool {
        let known = (self.high_watermark, self.log_start_offset);
        self.log_start_offset = data.log_start_offset;
        if data.error_code != ErrorCode::None.code() {
            // The end of the error is a change too.
            self.high_watermark = UNKNOWN;
            return true;
        }
        self.high_watermark = data.high_watermark;
        let diverges = data.diverging_epoch.epoch >= 0;
        diverges || known != (data.high_watermark, data.log_start_offset)
    }
}

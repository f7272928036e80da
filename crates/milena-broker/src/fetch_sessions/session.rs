//! One session: its partitions in the order they are read, and what the client was last told of each.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use milena_wire::{errors::ErrorCode, messages::FetchRequest, messages::fetch_response::PartitionData};

use super::{PartitionFetch, TopicKey, wanted_of};

/// What a client that was told nothing, or of an error, knows.
const UNKNOWN: i64 = -1;

#[derive(Debug)]
pub(super) struct Session {
    uses_topic_ids: bool,
    /// The epoch that the next request must have.
    pub(super) epoch: i32,
    created_ms: i64,
    pub(super) last_used_ms: i64,
    /// By place; whoever had records goes to the end, so that all have their turn.
    partitions: BTreeMap<u64, Cached>,
    places: HashMap<(TopicKey, i32), u64>,
    next_place: u64,
    /// The topic of the last partition that was added; the next is most likely of the same, and shares its name.
    topic: TopicKey,
}

#[derive(Debug)]
struct Cached {
    wanted: PartitionFetch,
    high_watermark: i64,
    log_start_offset: i64,
}

impl Session {
    /// A session that begins with this answer.
    pub(super) fn new(
        uses_topic_ids: bool,
        wanted: &[PartitionFetch],
        rows: &[Option<PartitionData>],
        now_ms: i64,
    ) -> Self {
        let mut session = Self {
            uses_topic_ids,
            epoch: 1,
            created_ms: now_ms,
            last_used_ms: now_ms,
            partitions: BTreeMap::new(),
            places: HashMap::with_capacity(wanted.len()),
            next_place: 0,
            topic: TopicKey::default(),
        };
        for (wanted, row) in wanted.iter().zip(rows) {
            if let (Some(cached), Some(row)) = (session.put(wanted.clone()), row) {
                cached.tells_news(row);
            }
        }
        session
    }

    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// How old it was when it was last used.
    pub(super) fn age_ms(&self) -> i64 {
        self.last_used_ms - self.created_ms
    }

    /// Whether a request may go on with this session.
    pub(super) fn check(&self, epoch: i32, uses_topic_ids: bool) -> Result<(), ErrorCode> {
        if epoch != self.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if uses_topic_ids != self.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        Ok(())
    }

    /// Adds, changes and forgets partitions as a request says.
    pub(super) fn update(&mut self, request: &FetchRequest, version: i16) {
        for wanted in request.topics.iter().flat_map(|topic| wanted_of(topic, version)) {
            self.put(wanted);
        }
        for topic in &request.forgotten_topics_data {
            let key = TopicKey::new(&topic.topic, topic.topic_id, version);
            for partition in &topic.partitions {
                if let Some(place) = self.places.remove(&(key.clone(), *partition)) {
                    self.partitions.remove(&place);
                }
            }
        }
    }

    /// A request was accepted: the next one must have the next epoch, which is never 0 again.
    pub(super) fn accept(&mut self, now_ms: i64) {
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        self.last_used_ms = now_ms;
    }

    /// All partitions, in the order they are read.
    pub(super) fn wanted(&self) -> Vec<PartitionFetch> {
        self.partitions.values().map(|cached| cached.wanted.clone()).collect()
    }

    /// Takes out of an answer what the client knows already, and notes what it is told.
    pub(super) fn leave_out_unchanged(&mut self, wanted: &[PartitionFetch], rows: &mut [Option<PartitionData>]) {
        for (wanted, row) in wanted.iter().zip(rows) {
            let (Some(data), Some(cached)) = (&row, self.partitions.get_mut(&wanted.place)) else {
                continue;
            };
            let has_records = data.records.as_ref().is_some_and(|records: &Bytes| !records.is_empty());
            let tells = cached.tells_news(data);
            if has_records {
                self.move_to_end(wanted.place);
            } else if !tells {
                *row = None;
            }
        }
    }

    /// Adds a partition at the end, or changes what is asked of it.
    fn put(&mut self, mut wanted: PartitionFetch) -> Option<&mut Cached> {
        let mut key = (wanted.topic, wanted.partition);
        if let Some(place) = self.places.get(&key) {
            let cached = self.partitions.get_mut(place)?;
            (wanted.topic, wanted.place) = (cached.wanted.topic.clone(), *place);
            cached.wanted = wanted;
            return Some(cached);
        }
        if self.topic != key.0 {
            // What it was read from is the frame of a request, which must not stay in memory with it.
            self.topic = key.0.detached();
        }
        key.0 = self.topic.clone();
        wanted.topic = self.topic.clone();
        wanted.place = self.next_place;
        self.next_place += 1;
        self.places.insert(key, wanted.place);
        let cached = Cached {
            high_watermark: UNKNOWN,
            log_start_offset: UNKNOWN,
            wanted,
        };
        Some(self.partitions.entry(cached.wanted.place).or_insert(cached))
    }

    fn move_to_end(&mut self, place: u64) {
        let Some(mut cached) = self.partitions.remove(&place) else {
            return;
        };
        cached.wanted.place = self.next_place;
        let key = (cached.wanted.topic.clone(), cached.wanted.partition);
        self.places.insert(key, self.next_place);
        self.partitions.insert(self.next_place, cached);
        self.next_place += 1;
    }
}

impl Cached {
    /// Whether an answer tells the client something new; it is noted as told.
    fn tells_news(&mut self, data: &PartitionData) -> bool {
        let told = (self.high_watermark, self.log_start_offset);
        self.log_start_offset = data.log_start_offset;
        if data.error_code != ErrorCode::None.code() {
            // When the error goes away, that is news too.
            self.high_watermark = UNKNOWN;
            return true;
        }
        self.high_watermark = data.high_watermark;
        let diverges = data.diverging_epoch.epoch >= 0;
        diverges || told != (data.high_watermark, data.log_start_offset)
    }
}

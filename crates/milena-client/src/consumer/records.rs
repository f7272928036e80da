//! Records returned by `poll`.

use std::{collections::BTreeMap, fmt, sync::Arc};

use milena_machines::{TopicPartition, fetch::Position};
use milena_wire::records::{Headers, OwnedRecord, Record, RecordSet, TimestampType};

use super::deserialize::{BoxError, DeserializeError, RecordField};

/// A decoded batch with its partition, shared by all records that are kept.
#[derive(Debug)]
pub(crate) struct DecodedBatch {
    pub(crate) partition: TopicPartition,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) records: RecordSet,
}

/// Consecutive records of one batch.
#[derive(Debug, Clone)]
struct Chunk {
    batch: Arc<DecodedBatch>,
    first: usize,
    end: usize,
}

/// The records of one `poll`, grouped by partition and ordered by offset.
///
/// It owns its data, so the consumer can be used meanwhile. The data lives in shared buffers, which are reused when
/// this value and every [`ConsumerRecord`] of it are dropped.
#[derive(Debug, Clone, Default)]
pub struct ConsumerRecords {
    chunks: Vec<Chunk>,
    count: usize,
    next: Vec<(TopicPartition, Position)>,
}

impl ConsumerRecords {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All records, grouped by partition.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            chunks: self.chunks.iter(),
            current: None,
            left: self.count,
        }
    }

    /// The partitions with records.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        let chunks = self.chunks.iter().enumerate();
        chunks.filter_map(|(index, chunk)| {
            let before = index.checked_sub(1).and_then(|before| self.chunks.get(before));
            let partition = &chunk.batch.partition;
            (before.is_none_or(|before| before.batch.partition != *partition)).then_some(partition)
        })
    }

    /// The records of one partition.
    pub fn partition<'a>(&'a self, partition: &'a TopicPartition) -> impl Iterator<Item = RecordRef<'a>> {
        self.chunks
            .iter()
            .filter(move |chunk| chunk.batch.partition == *partition)
            .flat_map(Chunk::iter)
    }

    /// The records of one topic.
    pub fn topic<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = RecordRef<'a>> {
        self.chunks
            .iter()
            .filter(move |chunk| chunk.batch.partition.topic == topic)
            .flat_map(Chunk::iter)
    }

    /// The records in runs that can be kept. Each run is of one partition; runs are grouped by partition.
    pub fn runs(&self) -> impl Iterator<Item = RecordRun> {
        self.chunks.iter().cloned().map(RecordRun)
    }

    /// The offsets to commit after all records are processed. For each partition the offset after the last record, and
    /// after control records such as transaction markers.
    pub fn next_offsets(&self) -> impl ExactSizeIterator<Item = (&TopicPartition, Position)> {
        self.next.iter().map(|(partition, position)| (partition, *position))
    }

    /// Appends records that did not come from a broker, for tests.
    pub fn add(&mut self, partition: &TopicPartition, leader_epoch: Option<i32>, records: RecordSet) {
        let Some(last) = records.iter().next_back() else {
            return;
        };
        let next = Position {
            offset: last.offset().saturating_add(1),
            epoch: leader_epoch,
        };
        let count = records.len();
        let batch = DecodedBatch {
            partition: partition.clone(),
            leader_epoch,
            records,
        };
        self.push(&Arc::new(batch), 0, count);
        self.set_next(partition, next);
    }

    pub(crate) fn push(&mut self, batch: &Arc<DecodedBatch>, first: usize, end: usize) {
        self.count += end - first;
        let batch = Arc::clone(batch);
        self.chunks.push(Chunk { batch, first, end });
    }

    pub(crate) fn set_next(&mut self, partition: &TopicPartition, position: Position) {
        match self.next.last_mut() {
            Some((last, next)) if last == partition => *next = position,
            _ => self.next.push((partition.clone(), position)),
        }
    }

    /// Groups the records of a partition that came in several fetches.
    pub(crate) fn group(&mut self) {
        // Two entries cannot have another one in between.
        if self.next.len() < 3 {
            return;
        }
        let mut ranks = BTreeMap::new();
        for (partition, _) in &self.next {
            let rank = ranks.len();
            ranks.entry(partition.clone()).or_insert(rank);
        }
        if ranks.len() == self.next.len() {
            return;
        }
        let rank = |partition: &TopicPartition| ranks.get(partition).copied();
        self.chunks.sort_by_cached_key(|chunk| rank(&chunk.batch.partition));
        // The last position of a partition counts.
        self.next.reverse();
        self.next.sort_by_cached_key(|(partition, _)| rank(partition));
        self.next.dedup_by(|(partition, _), (before, _)| partition == before);
    }
}

impl<'a> IntoIterator for &'a ConsumerRecords {
    type Item = RecordRef<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Chunk {
    fn iter(&self) -> ChunkIter<'_> {
        ChunkIter {
            batch: &self.batch,
            next: self.first,
            end: self.end,
        }
    }
}

#[derive(Debug, Clone)]
struct ChunkIter<'a> {
    batch: &'a Arc<DecodedBatch>,
    next: usize,
    end: usize,
}

impl<'a> Iterator for ChunkIter<'a> {
    type Item = RecordRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordRef<'a>> {
        let index = self.next;
        if index >= self.end {
            return None;
        }
        let record = self.batch.records.get(index)?;
        self.next = index + 1;
        let batch = self.batch;
        Some(RecordRef { batch, index, record })
    }
}

/// All records of a [`ConsumerRecords`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    chunks: std::slice::Iter<'a, Chunk>,
    current: Option<ChunkIter<'a>>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = RecordRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordRef<'a>> {
        loop {
            if let Some(record) = self.current.as_mut().and_then(Iterator::next) {
                self.left = self.left.saturating_sub(1);
                return Some(record);
            }
            self.current = Some(self.chunks.next()?.iter());
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// A record that borrows from its [`ConsumerRecords`]; access is free.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    batch: &'a Arc<DecodedBatch>,
    index: usize,
    record: Record<'a>,
}

impl<'a> RecordRef<'a> {
    pub fn topic(&self) -> &'a str {
        &self.batch.partition.topic
    }

    pub fn partition(&self) -> i32 {
        self.batch.partition.partition
    }

    pub fn topic_partition(&self) -> &'a TopicPartition {
        &self.batch.partition
    }

    pub fn offset(&self) -> i64 {
        self.record.offset()
    }

    /// The leader epoch of its batch; `None` in message formats before version 2.
    pub fn leader_epoch(&self) -> Option<i32> {
        self.batch.leader_epoch
    }

    /// Milliseconds since 1970, or -1 if it has none.
    pub fn timestamp(&self) -> i64 {
        self.record.timestamp()
    }

    pub fn timestamp_type(&self) -> TimestampType {
        self.record.timestamp_type()
    }

    /// `None` without a key, which differs from an empty key.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.record.key()
    }

    /// `None` for a tombstone.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.record.value()
    }

    /// The headers in their order; names may repeat.
    pub fn headers(&self) -> Headers<'a> {
        self.record.headers()
    }

    /// The record as a run of length one.
    pub fn to_run(&self) -> RecordRun {
        RecordRun(Chunk {
            batch: Arc::clone(self.batch),
            first: self.index,
            end: self.index + 1,
        })
    }

    /// The record without the borrow, for one reference count. It keeps its batch in memory; see
    /// [`ConsumerRecord::detach`].
    pub fn to_owned(&self) -> ConsumerRecord {
        ConsumerRecord {
            batch: Arc::clone(self.batch),
            index: self.index,
        }
    }
}

impl RecordRef<'_> {
    pub(super) fn deserialize_error(&self, field: RecordField, reason: BoxError) -> Box<DeserializeError> {
        Box::new(DeserializeError::new(
            &self.batch.partition,
            &self.record,
            field,
            reason,
        ))
    }
}

impl fmt::Debug for RecordRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("partition", self.topic_partition())
            .field("offset", &self.offset())
            .field("timestamp", &self.timestamp())
            .field("key_bytes", &self.key().map(<[u8]>::len))
            .field("value_bytes", &self.value().map(<[u8]>::len))
            .finish()
    }
}

/// A record that can be kept and sent to other tasks. It shares its batch.
#[derive(Clone)]
pub struct ConsumerRecord {
    batch: Arc<DecodedBatch>,
    index: usize,
}

impl ConsumerRecord {
    /// A borrowed view of the record.
    pub fn as_ref(&self) -> RecordRef<'_> {
        let (batch, index) = (&self.batch, self.index);
        let record = batch.records.known(index);
        RecordRef { batch, index, record }
    }

    /// Copies the record out of its batch. A record that is kept for long would keep the whole batch in memory.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.alone(self.as_ref().record.to_owned().detach())
    }

    /// A copy of the record with another timestamp. For records that carry their original time elsewhere, such as in a
    /// retry topic.
    #[must_use]
    pub fn with_timestamp(&self, timestamp: i64) -> Self {
        let record = self.as_ref().record.to_owned().detach();
        self.alone(record.with_timestamp(timestamp))
    }

    /// A copy of this record's batch that contains only `record`.
    fn alone(&self, record: OwnedRecord) -> Self {
        let DecodedBatch {
            partition,
            leader_epoch,
            ..
        } = &*self.batch;
        let batch = DecodedBatch {
            partition: partition.clone(),
            leader_epoch: *leader_epoch,
            records: RecordSet::from(record),
        };
        Self {
            batch: Arc::new(batch),
            index: 0,
        }
    }

    pub fn topic(&self) -> &str {
        self.as_ref().topic()
    }

    pub fn partition(&self) -> i32 {
        self.as_ref().partition()
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        &self.batch.partition
    }

    pub fn offset(&self) -> i64 {
        self.as_ref().offset()
    }

    pub fn timestamp(&self) -> i64 {
        self.as_ref().timestamp()
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.as_ref().key()
    }

    pub fn value(&self) -> Option<&[u8]> {
        self.as_ref().value()
    }

    pub fn headers(&self) -> Headers<'_> {
        self.as_ref().headers()
    }
}

/// Consecutive records of a partition that can be kept and sent to other tasks. They share one reference to their
/// batch.
#[derive(Clone)]
pub struct RecordRun(Chunk);

impl RecordRun {
    pub fn len(&self) -> usize {
        self.0.end - self.0.first
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn topic_partition(&self) -> &TopicPartition {
        &self.0.batch.partition
    }

    pub fn iter(&self) -> impl Iterator<Item = RecordRef<'_>> {
        self.0.iter()
    }

    pub fn get(&self, index: usize) -> Option<RecordRef<'_>> {
        let index = self.0.first.checked_add(index).filter(|index| *index < self.0.end)?;
        let (batch, record) = (&self.0.batch, self.0.batch.records.get(index)?);
        Some(RecordRef { batch, index, record })
    }

    /// Whether the offsets are consecutive.
    pub fn is_gapless(&self) -> bool {
        let last = self.get(self.len().wrapping_sub(1));
        let ends = self.get(0).zip(last);
        ends.is_some_and(|(first, last)| last.offset() - first.offset() == self.len() as i64 - 1)
    }

    /// The estimated size in bytes: its share of the batch.
    pub fn size(&self) -> usize {
        let records = &self.0.batch.records;
        records.size() / records.len().max(1) * self.len()
    }

    /// Keeps the first `count` records and returns the others.
    #[must_use]
    pub fn split_off(&mut self, count: usize) -> Self {
        let mut rest = self.0.clone();
        rest.first = self.0.first.saturating_add(count).min(self.0.end);
        self.0.end = rest.first;
        Self(rest)
    }

    /// The first record.
    pub fn into_first(self) -> ConsumerRecord {
        ConsumerRecord {
            batch: self.0.batch,
            index: self.0.first,
        }
    }
}

impl fmt::Debug for RecordRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for ConsumerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

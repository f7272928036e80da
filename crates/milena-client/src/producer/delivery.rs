//! The delivery of a record.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    batch_delivery::{BatchDelivery, BatchOutcome},
    error::SendError,
    record::RecordMetadata,
};

/// The future result of one enqueued record. The record is sent whether or not this is awaited.
#[derive(Debug)]
#[must_use = "the record is sent anyway, but only this says whether it was written"]
pub struct Delivery {
    batch: Arc<BatchDelivery>,
    /// The index of the record in its batch.
    index: u32,
    timestamp: i64,
    slot: Option<usize>,
}

impl Delivery {
    pub(super) fn new(batch: Arc<BatchDelivery>, index: u32, timestamp: i64) -> Self {
        Self {
            batch,
            index,
            timestamp,
            slot: None,
        }
    }

    pub(super) fn parts(&self) -> (&Arc<BatchDelivery>, u32, i64) {
        (&self.batch, self.index, self.timestamp)
    }

    pub fn partition(&self) -> i32 {
        self.batch.topic_partition.partition
    }

    /// Whether both records are in the same batch. They have the same outcome, unless the batch is split.
    pub fn is_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.batch, &other.batch)
    }

    /// The result, if it is known already.
    pub fn try_get(&self) -> Option<Result<RecordMetadata, SendError>> {
        let (mut batch, mut index) = (&self.batch, self.index);
        loop {
            match batch.outcome()? {
                BatchOutcome::Split(parts) => (batch, index) = part(parts, index)?,
                outcome => return Some(result(batch, index, self.timestamp, outcome)),
            }
        }
    }

    /// Waits for another part of a batch that was split.
    fn move_to(&mut self, batch: Arc<BatchDelivery>, index: u32) {
        self.leave();
        (self.batch, self.index) = (batch, index);
    }

    fn leave(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.batch.leave(slot);
        }
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, SendError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let moved = match ready!(this.batch.poll_outcome(cx, &mut this.slot)) {
                BatchOutcome::Split(parts) => part(parts, this.index).map(|(batch, index)| (Arc::clone(batch), index)),
                outcome => return Poll::Ready(result(&this.batch, this.index, this.timestamp, outcome)),
            };
            match moved {
                Some((batch, index)) => this.move_to(batch, index),
                None => return Poll::Ready(Err(SendError::Closed)),
            }
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The part of a split batch that contains the record, and its index there.
fn part(parts: &[(u32, Arc<BatchDelivery>)], index: u32) -> Option<(&Arc<BatchDelivery>, u32)> {
    let (first, batch) = parts.iter().rev().find(|(first, _)| *first <= index)?;
    Some((batch, index - first))
}

fn result(
    batch: &BatchDelivery,
    index: u32,
    timestamp: i64,
    outcome: &BatchOutcome,
) -> Result<RecordMetadata, SendError> {
    match outcome {
        BatchOutcome::Acked {
            base_offset,
            log_append_time_ms,
        } => Ok(RecordMetadata {
            topic: batch.topic_partition.topic.clone(),
            partition: batch.topic_partition.partition,
            offset: base_offset.map(|base| base + i64::from(index)),
            timestamp: log_append_time_ms.unwrap_or(timestamp),
        }),
        BatchOutcome::Failed(error) => Err(error.clone()),
        BatchOutcome::Split(_) => Err(SendError::Closed),
    }
}

/// Batches searched for the batch of a record: more than the usual number of partitions written at once.
const OPEN_BATCHES: usize = 16;

/// The deliveries of many records in little memory: one entry per batch.
///
/// ```no_run
/// # async fn demo(producer: milena_client::producer::Producer) -> Result<(), Box<dyn std::error::Error>> {
/// use milena_client::producer::{Deliveries, ProducerRecord};
///
/// let mut deliveries = Deliveries::default();
/// for number in 0..1_000_000 {
///     let value = format!("letter {number}");
///     let record = ProducerRecord::new("letters").value(&value);
///     deliveries.push(producer.enqueue(record).await?);
/// }
/// let written = deliveries.all().await?;
/// assert_eq!(written, 1_000_000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Deliveries {
    batches: Vec<(Delivery, u64)>,
}

impl Deliveries {
    pub fn push(&mut self, delivery: Delivery) {
        let mut open = self.batches.iter_mut().rev().take(OPEN_BATCHES);
        match open.find(|(last, _)| Arc::ptr_eq(&last.batch, &delivery.batch)) {
            Some((last, count)) => {
                *count += 1;
                // All records of a batch have the same outcome, unless it was split: then the parts up to the last
                // index count.
                last.index = last.index.max(delivery.index);
            }
            None => self.batches.push((delivery, 1)),
        }
    }

    /// Waits for all records. Returns their number, or the first error.
    pub async fn all(self) -> Result<u64, SendError> {
        let mut written = 0;
        for (delivery, count) in self.batches {
            wait_for_batch(Arc::clone(&delivery.batch), delivery.index).await?;
            written += count;
        }
        Ok(written)
    }
}

/// Waits for a batch up to the record at `last`, including the parts of a split.
pub(super) async fn wait_for_batch(batch: Arc<BatchDelivery>, last: u32) -> Result<(), SendError> {
    let mut open = vec![(batch, last)];
    while let Some((batch, last)) = open.pop() {
        let first = Delivery::new(Arc::clone(&batch), 0, -1).await;
        match batch.outcome() {
            Some(BatchOutcome::Split(parts)) => {
                let parts = parts.iter().filter(|(first, _)| *first <= last);
                open.extend(parts.map(|(first, batch)| (Arc::clone(batch), last - first)));
            }
            _ => first.map(drop)?,
        }
    }
    Ok(())
}

//! Waiting for the acknowledgement of a record.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    error::SendError,
    fate::{BatchFate, Outcome},
    record::RecordMetadata,
};

/// A record on its way. It is sent whether somebody waits for this or not.
#[derive(Debug)]
#[must_use = "the record is sent anyway, but only this says whether it was written"]
pub struct Delivery {
    fate: Arc<BatchFate>,
    /// The place of the record in its batch.
    index: u32,
    timestamp: i64,
    seat: Option<usize>,
}

impl Delivery {
    pub(super) fn new(fate: Arc<BatchFate>, index: u32, timestamp: i64) -> Self {
        Self {
            fate,
            index,
            timestamp,
            seat: None,
        }
    }

    pub(super) fn parts(&self) -> (&Arc<BatchFate>, u32, i64) {
        (&self.fate, self.index, self.timestamp)
    }

    pub fn partition(&self) -> i32 {
        self.fate.place.partition
    }

    /// Whether both records were put into the same batch. What becomes of one becomes of the other, unless the batch is split.
    pub fn is_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.fate, &other.fate)
    }

    /// What became of the record, if that is known by now.
    pub fn try_get(&self) -> Option<Result<RecordMetadata, SendError>> {
        let (mut fate, mut index) = (&self.fate, self.index);
        loop {
            match fate.outcome()? {
                Outcome::Split(parts) => (fate, index) = part(parts, index)?,
                outcome => return Some(result(fate, index, self.timestamp, outcome)),
            }
        }
    }

    /// Waits in the batch that the record is in now.
    fn move_to(&mut self, fate: Arc<BatchFate>, index: u32) {
        self.leave();
        (self.fate, self.index) = (fate, index);
    }

    fn leave(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.fate.leave(seat);
        }
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, SendError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let moved = match ready!(this.fate.poll_outcome(cx, &mut this.seat)) {
                Outcome::Split(parts) => part(parts, this.index).map(|(fate, index)| (Arc::clone(fate), index)),
                outcome => return Poll::Ready(result(&this.fate, this.index, this.timestamp, outcome)),
            };
            match moved {
                Some((fate, index)) => this.move_to(fate, index),
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

/// The part that a record went with, and its place there.
fn part(parts: &[(u32, Arc<BatchFate>)], index: u32) -> Option<(&Arc<BatchFate>, u32)> {
    let (first, fate) = parts.iter().rev().find(|(first, _)| *first <= index)?;
    Some((fate, index - first))
}

fn result(fate: &BatchFate, index: u32, timestamp: i64, outcome: &Outcome) -> Result<RecordMetadata, SendError> {
    match outcome {
        Outcome::Acked {
            base_offset,
            log_append_time_ms,
        } => Ok(RecordMetadata {
            topic: fate.place.topic.clone(),
            partition: fate.place.partition,
            offset: base_offset.map(|base| base + i64::from(index)),
            timestamp: log_append_time_ms.unwrap_or(timestamp),
        }),
        Outcome::Failed(error) => Err(error.clone()),
        Outcome::Split(_) => Err(SendError::Closed),
    }
}

/// How many batches a record is looked for in: as many partitions are usually written to at once.
const OPEN_BATCHES: usize = 16;

/// Many records on their way, in little room: those of one batch are kept as one.
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
        match open.find(|(last, _)| Arc::ptr_eq(&last.fate, &delivery.fate)) {
            Some((last, count)) => {
                *count += 1;
                // What became of the last of a batch became of all, unless the batch was split: then the parts differ.
                last.index = last.index.max(delivery.index);
            }
            None => self.batches.push((delivery, 1)),
        }
    }

    /// Waits for all; gives their number, or the first error.
    pub async fn all(self) -> Result<u64, SendError> {
        let mut written = 0;
        for (delivery, count) in self.batches {
            whole(Arc::clone(&delivery.fate), delivery.index).await?;
            written += count;
        }
        Ok(written)
    }
}

/// Waits for a batch up to the record at `last`, with all its parts if it was split.
pub(super) async fn whole(fate: Arc<BatchFate>, last: u32) -> Result<(), SendError> {
    let mut open = vec![(fate, last)];
    while let Some((fate, last)) = open.pop() {
        let first = Delivery::new(Arc::clone(&fate), 0, -1).await;
        match fate.outcome() {
            Some(Outcome::Split(parts)) => {
                let parts = parts.iter().filter(|(first, _)| *first <= last);
                open.extend(parts.map(|(first, fate)| (Arc::clone(fate), last - first)));
            }
            _ => first.map(drop)?,
        }
    }
    Ok(())
}

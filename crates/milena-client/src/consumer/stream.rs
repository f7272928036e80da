//! A stream of single records.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;

use super::{
    Consumer, ConsumerRecord, ConsumerRecords, PollError,
    poll::{StepInput, StepOutcome},
};

/// The endless stream of a consumer's records. See [`Consumer::stream`].
pub struct RecordStream<'a> {
    state: StreamState<'a>,
}

type PollFuture<'a> = Pin<Box<dyn Future<Output = (&'a mut Consumer, Result<ConsumerRecords, PollError>)> + Send + 'a>>;

enum StreamState<'a> {
    Waiting(PollFuture<'a>),
    Idle(&'a mut Consumer),
    /// Only during a state transition.
    Between,
}

impl Consumer {
    /// A stream of single records. It never ends; an error is an item, after which the stream continues like `poll`.
    ///
    /// The position moves with each record, so dropping the stream loses nothing. For high rates, `poll` costs less.
    pub fn stream(&mut self) -> RecordStream<'_> {
        RecordStream {
            state: StreamState::Idle(self),
        }
    }
}

fn first(records: &ConsumerRecords) -> Option<ConsumerRecord> {
    records.iter().next().map(|record| record.to_owned())
}

fn wait(consumer: &mut Consumer) -> PollFuture<'_> {
    Box::pin(async move {
        let polled = consumer.poll_up_to(Duration::MAX, 1).await;
        (consumer, polled)
    })
}

impl RecordStream<'_> {
    /// The next record, without `StreamExt` of another crate. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<ConsumerRecord, PollError> {
        let next = std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await;
        next.unwrap_or(Err(PollError::Closed))
    }
}

impl Stream for RecordStream<'_> {
    type Item = Result<ConsumerRecord, PollError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.state, StreamState::Between) {
                StreamState::Idle(consumer) => match consumer.step(StepInput::once()) {
                    Ok(StepOutcome::Records(records)) => {
                        let records = consumer.intercept(records);
                        self.state = StreamState::Idle(consumer);
                        if let Some(record) = first(&records) {
                            return Poll::Ready(Some(Ok(record)));
                        }
                    }
                    Ok(StepOutcome::Again) => self.state = StreamState::Idle(consumer),
                    Ok(StepOutcome::Event(_) | StepOutcome::Wait) => self.state = StreamState::Waiting(wait(consumer)),
                    Err(error) => {
                        self.state = StreamState::Idle(consumer);
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                StreamState::Waiting(mut polled) => {
                    let outcome = polled.as_mut().poll(context);
                    if outcome.is_pending() {
                        self.state = StreamState::Waiting(polled);
                        return Poll::Pending;
                    }
                    let (consumer, outcome) = ready!(outcome);
                    self.state = StreamState::Idle(consumer);
                    match outcome.map(|records| first(&records)) {
                        Ok(Some(record)) => return Poll::Ready(Some(Ok(record))),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
                StreamState::Between => return Poll::Ready(None),
            }
        }
    }
}

impl std::fmt::Debug for RecordStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordStream").finish_non_exhaustive()
    }
}

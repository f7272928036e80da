//! Requests before they are sent.

use std::{sync::Arc, time::Duration};

use milena_client::producer::{Delivery, Header, ProducerRecord, TrySendError};
use milena_machines::request_reply::{BeginError, CorrelationId};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::{
    PendingReply, Reply, RequestError, Requester, WhenPendingFull,
    headers::{
        CORRELATION_ID, REPLY_DEADLINE, REPLY_PARTITION, REPLY_TOPIC, SPRING_CORRELATION_ID, SPRING_REPLY_PARTITION,
        SPRING_REPLY_TOPIC,
    },
    requester::Shared,
};
use crate::{clock::millis, handler::OutRecord};

/// A request that is not sent yet.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    requester: Requester,
    record: OutRecord,
    timeout: Duration,
}

impl Request {
    pub(super) fn new(requester: Requester, record: OutRecord) -> Self {
        let timeout = requester.link.shared.config.timeout;
        Self {
            requester,
            record,
            timeout,
        }
    }

    /// Time until the request fails. Services skip it after that time.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// Adds a header; names may repeat.
    pub fn header(mut self, name: impl Into<bytes::Bytes>, value: impl Into<bytes::Bytes>) -> Self {
        self.record = self.record.header(name, value);
        self
    }

    /// Sends the request and waits for its reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; a request that was sent is handled nevertheless.
    pub fn send(self) -> impl Future<Output = Result<Reply, RequestError>> + Send {
        // Boxed until it is sent: a task that waits for a reply, of which there may be many, keeps only the rest.
        let begun = Box::pin(self.begin());
        async move {
            let pending = begun.await?;
            pending.await
        }
    }

    /// Sends the request and decodes the value of its reply as JSON.
    pub async fn send_json<R: DeserializeOwned>(self) -> Result<R, RequestError> {
        let reply = self.send().await?;
        reply.json().map_err(|error| RequestError::Decode { error, reply })
    }

    /// Hands the request to the producer and returns its reply as a future, so that many can be in flight.
    pub async fn begin(self) -> Result<PendingReply, RequestError> {
        let shared = Arc::clone(&self.requester.link.shared);
        let deadline_ms = shared.clock.now_ms().saturating_add(millis(self.timeout).max(0));
        match shared.room.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(tokio::sync::TryAcquireError::Closed) => return Err(RequestError::Closed),
            // Boxed, to keep the common future small.
            Err(tokio::sync::TryAcquireError::NoPermits) => Box::pin(wait_for_room(&shared, self.timeout)).await?,
        }
        let mut pending = self.pend(&shared, deadline_ms)?;
        let headers = ReplyHeaders::new(&shared, pending.id, deadline_ms);
        pending.delivery = Some(
            send(&shared, &self.record, &headers, deadline_ms)
                .await
                .map_err(|error| {
                    error.unwrap_or_else(|| RequestError::TimedOut {
                        waited: self.timeout,
                        problem: Some("the request could not be sent: see the producer's log".to_owned()),
                    })
                })?,
        );
        Ok(pending)
    }

    /// Adds the request to the pending ones. The permit for it was taken.
    fn pend(&self, shared: &Shared, deadline_ms: i64) -> Result<PendingReply, RequestError> {
        let (waiter, reply) = oneshot::channel();
        let mut state = shared.state();
        let nonce = shared.nonce(&state);
        let begun = state.requests.begin(nonce, deadline_ms, waiter);
        let is_earlier = state.armed_ms.is_none_or(|armed_ms| deadline_ms < armed_ms);
        drop(state);
        let id = begun.map_err(|error| {
            shared.room.add_permits(1);
            match error {
                BeginError::Full { pending_max } => RequestError::Full { pending_max },
                BeginError::Closed | BeginError::NoPosition => RequestError::Closed,
            }
        })?;
        if is_earlier {
            shared.earlier.notify_one();
        }
        Ok(PendingReply {
            link: Arc::clone(&self.requester.link),
            id,
            reply,
            delivery: None,
            doubt: None,
            timeout: self.timeout,
        })
    }
}

async fn wait_for_room(shared: &Shared, timeout: Duration) -> Result<(), RequestError> {
    let pending_max = shared.config.pending_max;
    if shared.config.when_full == WhenPendingFull::Fail {
        return Err(RequestError::Full { pending_max });
    }
    match shared.clock.within(Some(timeout), shared.room.acquire()).await {
        Some(Ok(permit)) => {
            permit.forget();
            Ok(())
        }
        Some(Err(_)) => Err(RequestError::Closed),
        None => Err(RequestError::Full { pending_max }),
    }
}

/// Hands a request to the producer. `None` is a wait that took longer than the request may.
async fn send(
    shared: &Shared,
    record: &OutRecord,
    headers: &ReplyHeaders,
    deadline_ms: i64,
) -> Result<Delivery, Option<RequestError>> {
    let headers = headers.all(shared, record);
    let record: ProducerRecord<'_> = record.lend(&headers);
    match shared.producer.try_enqueue(record) {
        Ok(delivery) => Ok(delivery),
        Err(TrySendError::Refused(error)) => Err(Some(error.into())),
        // It must wait for metadata or memory.
        Err(_) => {
            let left_ms = deadline_ms.saturating_sub(shared.clock.now_ms()).max(0);
            let limit = Duration::from_millis(left_ms.unsigned_abs());
            // Boxed, to keep the common future small.
            let taken = Box::pin(shared.clock.within(Some(limit), shared.producer.enqueue(record))).await;
            match taken {
                Some(Ok(delivery)) => Ok(delivery),
                Some(Err(error)) => Err(Some(error.into())),
                None => Err(None),
            }
        }
    }
}

/// The headers that tell a service where the reply goes.
struct ReplyHeaders {
    id: [u8; CorrelationId::BYTES],
    partition: [u8; 4],
    partition_text: String,
    deadline_text: String,
}

impl ReplyHeaders {
    fn new(shared: &Shared, id: CorrelationId, deadline_ms: i64) -> Self {
        let partition = shared.partition.partition;
        Self {
            id: id.to_bytes(),
            partition: partition.to_be_bytes(),
            partition_text: partition.to_string(),
            deadline_text: deadline_ms.to_string(),
        }
    }

    /// Those of the request and these.
    fn all<'a>(&'a self, shared: &'a Shared, record: &'a OutRecord) -> Vec<Header<'a>> {
        let own = record.headers.iter().map(|(key, value)| Header {
            key,
            value: value.as_deref(),
        });
        let mut all: Vec<Header<'a>> = own.collect();
        let topic = shared.partition.topic.as_bytes();
        let mut add = |name: &'static str, value: &'a [u8]| {
            all.push(Header {
                key: name.as_bytes(),
                value: Some(value),
            });
        };
        add(CORRELATION_ID, &self.id);
        add(REPLY_TOPIC, topic);
        add(REPLY_PARTITION, self.partition_text.as_bytes());
        add(REPLY_DEADLINE, self.deadline_text.as_bytes());
        if shared.config.with_spring_headers {
            add(SPRING_CORRELATION_ID, &self.id);
            add(SPRING_REPLY_TOPIC, topic);
            add(SPRING_REPLY_PARTITION, &self.partition);
        }
        all
    }
}

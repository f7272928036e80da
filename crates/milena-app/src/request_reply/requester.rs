//! The requester and its shared state.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use milena_client::{
    admin::Admin,
    consumer::{Consumer, TopicPartition},
    producer::Producer,
};
use milena_machines::request_reply::{CorrelationId, Requests, RequestsConfig};
use tokio::{
    sync::{Notify, Semaphore, oneshot},
    task::JoinHandle,
};

use super::{
    RequestError, RequesterConfig, RequesterCounts, RequesterError, driver, locate, metrics, pending::Ending,
    request::Request,
};
use crate::{clock::Clock, handler::OutRecord};

/// Time for which `close` waits for the producer and the consumer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends requests and receives their replies. Clones share it; it is also a
/// [state](crate::handler::State) for handlers. It ends when the last clone and the last pending request are dropped.
#[derive(Clone)]
pub struct Requester {
    pub(super) link: Arc<Link>,
}

/// The shared state with the tasks that serve it. Tasks have only the shared state, so that they end with the link.
pub(super) struct Link {
    pub(super) shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) producer: Producer,
    pub(super) config: RequesterConfig,
    pub(super) partition: TopicPartition,
    pub(super) state: Mutex<State>,
    /// Permits of requests that may still begin.
    pub(super) room: Semaphore,
    /// Notified when a deadline is earlier than the one that the timer waits for.
    pub(super) earlier: Notify,
    /// Notified when the requester closes.
    pub(super) closing: Notify,
    nonces: RandomState,
}

pub(super) struct State {
    pub(super) requests: Requests<oneshot::Sender<Ending>>,
    /// The deadline that the timer waits for.
    pub(super) armed_ms: Option<i64>,
    /// Why replies cannot be read at the moment.
    pub(super) problem: Option<String>,
}

impl Shared {
    /// The state. The lock is never held across an await.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A random number for the next request. `RandomState` is a keyed hash with a key of the operating system.
    pub(super) fn nonce(&self, state: &State) -> u64 {
        self.nonces.hash_one(state.requests.counts().begun)
    }

    /// Removes a request that nothing waits for any more.
    pub(super) fn cancel(&self, id: CorrelationId) {
        self.state().requests.cancel(id);
    }
}

impl Requester {
    /// Starts a requester: finds or creates its reply topic, and determines the position from which replies are read.
    /// Requests are sent only after that, so that no reply can be missed.
    pub async fn start(config: RequesterConfig) -> Result<Self, RequesterError> {
        if config.pending_max == 0 {
            return Err(RequesterError::NoRoom);
        }
        for key in ["group.id", "transactional.id"] {
            let maps = [&config.common, &config.consumer, &config.producer];
            if maps.iter().any(|map| map.get(key).is_some()) {
                return Err(RequesterError::OurSetting { key });
            }
        }
        let producer = Producer::new(config.producer_settings())?;
        let mut consumer = Consumer::new(config.consumer_settings())?;
        let admin = Admin::new(config.common.clone())?;
        let nonces = RandomState::new();
        let epoch = nonces.hash_one("epoch");
        let located = locate::locate(&config, &admin, &mut consumer, epoch).await?;
        let mut requests = Requests::new(RequestsConfig {
            epoch: u32::try_from(epoch >> 32).unwrap_or(0),
            pending_max: config.pending_max,
        });
        requests.handle_position(located.position);
        let shared = Arc::new(Shared {
            clock: config.clock.clone(),
            producer,
            room: Semaphore::new(config.pending_max as usize),
            partition: located.partition,
            state: Mutex::new(State {
                requests,
                armed_ms: None,
                problem: None,
            }),
            earlier: Notify::new(),
            closing: Notify::new(),
            nonces,
            config,
        });
        let (partition, position) = (&shared.partition, located.position);
        tracing::info!(event = "requester_started", %partition, position, "replies are read from {partition}, offset {position}");
        let tasks = vec![
            tokio::spawn(driver::read_replies(Arc::clone(&shared), consumer)),
            tokio::spawn(driver::expire(Arc::clone(&shared))),
        ];
        Ok(Self {
            link: Arc::new(Link {
                shared,
                tasks: Mutex::new(tasks),
            }),
        })
    }

    /// A request with a key, which chooses its partition, and a value.
    pub fn request(&self, topic: impl Into<String>, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Request {
        self.request_record(OutRecord::new(topic).key(key).value(value))
    }

    /// A request as a record: without a key, with a partition or with headers.
    pub fn request_record(&self, record: OutRecord) -> Request {
        Request::new(self.clone(), record)
    }

    /// Sends a value as JSON, and decodes the value of the reply.
    pub async fn request_json<T, R>(&self, topic: &str, key: &str, value: &T) -> Result<R, RequestError>
    where
        T: serde::Serialize + ?Sized,
        R: serde::de::DeserializeOwned,
    {
        let value = serde_json::to_vec(value).map_err(RequestError::Encode)?;
        self.request(topic, key.to_owned(), value).send_json().await
    }

    /// Topic and partition from which replies are read.
    pub fn reply_partition(&self) -> &TopicPartition {
        &self.link.shared.partition
    }

    pub fn counts(&self) -> RequesterCounts {
        let state = self.link.shared.state();
        RequesterCounts::new(state.requests.pending(), state.requests.counts())
    }

    /// Counters in Prometheus' text format. [`App::requester`](crate::App::requester) adds them to those of the
    /// application.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        metrics::write(&mut text, &[(self.reply_partition().to_string(), self.counts())]);
        text
    }

    /// Ends the requester. Pending requests fail with [`RequestError::Closed`]. A reply topic of its own is deleted.
    pub async fn close(self) {
        let shared = &self.link.shared;
        let pending = shared.state().requests.close();
        for waiter in pending {
            // Its future may be gone.
            let _ = waiter.send(Ending::Closed);
        }
        shared.room.close();
        shared.closing.notify_one();
        let tasks = std::mem::take(&mut *self.link.tasks());
        let (reader, timer) = split(tasks);
        if let Some(timer) = timer {
            timer.abort();
        }
        if let Some(reader) = reader
            && tokio::time::timeout(CLOSE_TIMEOUT, reader).await.is_err()
        {
            tracing::warn!(
                event = "requester_close_slow",
                "the consumer of replies did not close in time"
            );
        }
        if let Err(error) = shared.producer.clone().close_within(CLOSE_TIMEOUT).await {
            tracing::warn!(event = "requester_close_failed", %error, "the producer of requests did not close: {error}");
        }
        if shared.config.owns_topic {
            locate::delete_own_topic(&shared.config).await;
        }
    }
}

/// The reader and the timer.
fn split(tasks: Vec<JoinHandle<()>>) -> (Option<JoinHandle<()>>, Option<JoinHandle<()>>) {
    let mut tasks = tasks.into_iter();
    (tasks.next(), tasks.next())
}

impl Link {
    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks().iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester")
            .field("replies", self.reply_partition())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

//! Policies of handlers: order, bounds, retries, dead letters. Policies are data. The runtime applies them in one fixed
//! order, regardless of the order of declaration:
//!
//! decode → bulkhead → rate → breaker → timeout → handler → classify → retry in place → retry topic → dead letter → done
//!
//! Waiting costs no thread, no connection and no group membership: the key is parked, or the partition is paused. Each
//! setter documents its default and the consequence of exceeding it.

mod dead_letters;
mod resources;
mod retry;

use std::time::Duration;

pub use dead_letters::{DeadLetters, Exhausted};
pub use milena_machines::app::{NullKey, Order, RetryOrdering, WhenStalled};
pub use resources::{Breaker, DlqLimit, Rate, WhenFull, WhenOpen};
pub use retry::Retry;

use crate::request_reply::Replies;

/// High and low watermark: fetching pauses above the first and resumes at the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    pub high: u64,
    pub low: u64,
}

impl Watermarks {
    /// Default bound of records in flight.
    pub const RECORDS: Self = Self {
        high: 10_000,
        low: 7_000,
    };
    /// Default bound of bytes in flight.
    pub const BYTES: Self = Self {
        high: 64 << 20,
        low: 48 << 20,
    };

    /// A high watermark with a low watermark of 70 percent.
    pub fn high(high: u64) -> Self {
        Self {
            high,
            low: high.saturating_mul(7) / 10,
        }
    }
}

/// Settings of a handler.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a policy has no effect until it is given to a handler"]
pub struct Policy {
    pub(crate) order: Order,
    pub(crate) null_key: NullKey,
    pub(crate) in_flight: Watermarks,
    pub(crate) buffer: Watermarks,
    pub(crate) concurrency: Option<u32>,
    pub(crate) bulkhead: Option<String>,
    pub(crate) when_full: WhenFull,
    pub(crate) rate: Option<Rate>,
    pub(crate) breakers: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) timeout_is_final: bool,
    pub(crate) slow_after: Option<Duration>,
    pub(crate) retry: Retry,
    pub(crate) exhausted: Exhausted,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) dlq_limit: Option<DlqLimit>,
    pub(crate) batch_size: usize,
    pub(crate) batch_linger: Duration,
    pub(crate) replies: Option<Replies>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: Order::Key,
            null_key: NullKey::Unordered,
            in_flight: Watermarks::RECORDS,
            buffer: Watermarks::BYTES,
            concurrency: None,
            bulkhead: None,
            when_full: WhenFull::Wait,
            rate: None,
            breakers: vec![],
            timeout: Some(Duration::from_secs(5)),
            timeout_is_final: false,
            slow_after: Some(Duration::from_secs(1)),
            retry: Retry::default(),
            exhausted: Exhausted::DeadLetter,
            dead_letters: DeadLetters::default(),
            dlq_limit: None,
            batch_size: 500,
            batch_linger: Duration::from_millis(20),
            replies: None,
        }
    }
}

impl Policy {
    /// Records that are handled sequentially: those of a key ([`Order::Key`], the default), those of a partition, or
    /// none. A record that waits for its retry delays only the records behind it in this order.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Whether records without a key are ordered among themselves; by default they are not.
    pub fn null_key(mut self, null_key: NullKey) -> Self {
        self.null_key = null_key;
        self
    }

    /// Bound of records that are fetched and not done: 10,000 by default; fetching resumes at 7,000. Above the bound
    /// the handler's partitions pause. One partition fills at most a quarter of it.
    pub fn in_flight(mut self, records: u64) -> Self {
        self.in_flight = Watermarks::high(records);
        self
    }

    /// Sets both watermarks of [`in_flight`](Self::in_flight).
    pub fn in_flight_watermarks(mut self, water: Watermarks) -> Self {
        self.in_flight = water;
        self
    }

    /// Bound of record bytes that are fetched and not done: 64 MiB by default; fetching resumes at 48 MiB. Above the
    /// bound the handler's partitions pause.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.buffer = Watermarks::high(bytes);
        self
    }

    /// Bound of records in the handler at the same time; by default that of the records in flight. Others wait.
    pub fn concurrency(mut self, records: u32) -> Self {
        self.concurrency = Some(records);
        self
    }

    /// Uses a bulkhead: permits shared with all handlers of the same delivery guarantee that name it; see
    /// `App::bulkhead`. Records without a permit wait, unless [`when_full`](Self::when_full) says otherwise.
    pub fn bulkhead(mut self, name: impl Into<String>) -> Self {
        self.bulkhead = Some(name.into());
        self
    }

    /// Reaction when the [`bulkhead`](Self::bulkhead) has no permit for a record that could be handled now.
    /// [`WhenFull::Wait`], the default, waits. [`WhenFull::DeadLetter`] writes a dead letter without calling the
    /// handler; a [`DlqLimit`] bounds that. [`WhenFull::Skip`] skips the record, counts it, and logs
    /// `event=bulkhead_full`. Records that wait for their key, for [`concurrency`](Self::concurrency),
    /// [`rate`](Self::rate) or a breaker still wait.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Rate limit in records per second; by default none. Excess records wait.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Uses a circuit breaker; see `App::breaker`. While it is open the handler's partitions pause: no record is lost,
    /// retried or dead-lettered, unless [`Breaker::when_open`] says otherwise.
    pub fn breaker(mut self, name: impl Into<String>) -> Self {
        self.breakers.push(name.into());
        self
    }

    /// Timeout of one handler call: 5 seconds by default, `None` for no limit. At the timeout the call's future is
    /// dropped, which is a failure like any other. Its effects may be incomplete.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Treats a [`timeout`](Self::timeout) as final: the record becomes a dead letter at once, or whatever
    /// [`when_exhausted`](Self::when_exhausted) says. By default it is retried.
    pub fn dead_letter_on_timeout(mut self) -> Self {
        self.timeout_is_final = true;
        self
    }

    /// Duration above which a call is counted as slow and logged: 1 second by default.
    pub fn slow_after(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.slow_after = limit.into();
        self
    }

    /// Retries in place. See [`Retry`] for the defaults.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Retry topics for records that still fail after the attempts in place: one topic per delay, `<topic>.retry-1m`
    /// and so on. By default there are none. Later records of the key overtake a record in a retry topic, unless
    /// [`keep_key_order`](Self::keep_key_order) is set.
    pub fn then_topics(mut self, delays: impl IntoIterator<Item = Duration>) -> Self {
        self.retry.topics = delays.into_iter().collect();
        self
    }

    /// Keeps the order of keys through the delays of [`then_topics`](Self::then_topics); by default later records of a
    /// key overtake a failed one. Failed records move to one held-keys topic, `<topic>.held`, instead of one topic per
    /// delay. Later records of the key follow them there until all of them are done or dead. Other keys are not
    /// affected. The group `<group>.held` reads the topic.
    ///
    /// Up to 10,000 keys of a partition can be held; beyond that, a failed record waits in place and blocks its key.
    /// Without held keys there is no cost. With held keys it is one request per second, and one write per record of a
    /// held key. A held record delays its key for all delays, which start again after a crash. The policy requires key
    /// order; records without a key stay unordered unless [`null_key`](Self::null_key) says otherwise. Drain existing
    /// retry topics before you switch an application to this policy: it no longer reads them.
    pub fn keep_key_order(mut self) -> Self {
        self.retry.ordering = RetryOrdering::HoldKey;
        self
    }

    /// Returns records to their own topic after each delay of [`then_topics`](Self::then_topics). By default the
    /// handler gets them from the retry topic, which no other group reads. **Every group that reads the topic sees a
    /// returned record again**, every time; a warning at start says so.
    ///
    /// The record returns to the same partition with its key, value, timestamp and headers, plus failure headers. If no
    /// header holds an event id, `event_id` is added with the origin, so that
    /// [`Cx::event_id`](crate::handler::Cx::event_id) stays the same for all groups. Attempts keep counting, and the
    /// next failure uses the next delay.
    ///
    /// Any producer can write headers on that topic. Failure headers of this group are trusted if they name an earlier
    /// record of the same partition. The number of returns is trusted from every group, so that groups that all fail do
    /// not return a record for each other forever. Batches are then handled record by record.
    pub fn return_to_origin(mut self) -> Self {
        self.retry.ordering = RetryOrdering::Return;
        self
    }

    /// Dead letter topics, by default `<topic>.dlq`. If a dead letter cannot be written, the partition waits until it
    /// can.
    pub fn dead_letters(mut self, dead_letters: DeadLetters) -> Self {
        self.exhausted = Exhausted::DeadLetter;
        self.dead_letters = dead_letters;
        self
    }

    /// Reaction to records that fail for good; by default a dead letter.
    pub fn when_exhausted(mut self, exhausted: Exhausted) -> Self {
        self.exhausted = exhausted;
        self
    }

    /// Stops a partition that produces too many dead letters; by default there is no limit. The cause is then hardly
    /// the records.
    pub fn dlq_limit(mut self, guard: DlqLimit) -> Self {
        self.dlq_limit = Some(guard);
        self
    }

    /// The handler answers requests: those that have expired are skipped and counted, and requesters of dead letters get
    /// an error. The producer of the application has `linger.ms=0` then, unless it is set. See [`Replies`] for the
    /// topics that requests may name.
    ///
    /// Without this setting [`Done::reply`](crate::handler::Done::reply) works too, but the handler gets every record
    /// and dead letters have no reply: a handler that only archives requests must see them all.
    pub fn replies(mut self, replies: Replies) -> Self {
        self.replies = Some(replies);
        self
    }

    /// Batch handlers: the maximum number of records per call, 500 by default.
    pub fn batch_size(mut self, records: usize) -> Self {
        self.batch_size = records;
        self
    }

    /// Batch handlers: the time that an incomplete batch waits for more records, 20 ms by default.
    pub fn batch_linger(mut self, time: Duration) -> Self {
        self.batch_linger = time;
        self
    }
}

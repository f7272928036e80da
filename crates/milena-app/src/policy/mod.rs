//! What is declared about a handler: order, bounds, retries, dead letters. Policies are data; the runtime runs them in one
//! fixed order, whatever the order in which they were declared:
//!
//! decode → bulkhead → rate → breaker → timeout → handler → classify → retry in place → retry topic → dead letter → done
//!
//! What must wait waits without a thread, a connection or the membership of the group: its key is parked, or its
//! partition is not fetched. Every default stands beside its setter, with what happens when it is exceeded.

mod dead_letters;
mod resources;
mod retry;

use std::time::Duration;

pub use dead_letters::{DeadLetters, Exhausted};
pub use milena_machines::app::{NullKey, Order, RetryOrdering, WhenStalled};
pub use resources::{Breaker, FloodGuard, Rate, WhenFull, WhenOpen};
pub use retry::Retry;

/// High and low water: above the first, fetching pauses; at the second it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Water {
    pub high: u64,
    pub low: u64,
}

impl Water {
    /// How many records are in flight, unless told otherwise.
    pub const RECORDS: Self = Self {
        high: 10_000,
        low: 7_000,
    };
    /// How many bytes they have, unless told otherwise.
    pub const BYTES: Self = Self {
        high: 64 << 20,
        low: 48 << 20,
    };

    /// With a low water of 70 percent.
    pub fn high(high: u64) -> Self {
        Self {
            high,
            low: high.saturating_mul(7) / 10,
        }
    }
}

/// How a handler's records are treated.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a policy does something when it is given to a handler"]
pub struct Policy {
    pub(crate) order: Order,
    pub(crate) null_key: NullKey,
    pub(crate) in_flight: Water,
    pub(crate) buffer: Water,
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
    pub(crate) flood_guard: Option<FloodGuard>,
    pub(crate) batch_size: usize,
    pub(crate) batch_linger: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: Order::Key,
            null_key: NullKey::Unordered,
            in_flight: Water::RECORDS,
            buffer: Water::BYTES,
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
            flood_guard: None,
            batch_size: 500,
            batch_linger: Duration::from_millis(20),
        }
    }
}

impl Policy {
    /// What is handled one after the other: the records of a key ([`Order::Key`], the default), of a partition, or none.
    /// A record that waits for its retry keeps those behind it waiting, and no others.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Whether records without a key are in order among themselves; by default they are not.
    pub fn null_key(mut self, null_key: NullKey) -> Self {
        self.null_key = null_key;
        self
    }

    /// How many records may be fetched and not done: 10,000, and fetching goes on at 7,000. Above it the partitions of
    /// this handler pause; one partition fills at most a quarter.
    pub fn in_flight(mut self, records: u64) -> Self {
        self.in_flight = Water::high(records);
        self
    }

    /// The same with a low water of its own.
    pub fn in_flight_water(mut self, water: Water) -> Self {
        self.in_flight = water;
        self
    }

    /// How many bytes of records may be fetched and not done: 64 MiB, and fetching goes on at 48 MiB. Above it the
    /// partitions of this handler pause.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.buffer = Water::high(bytes);
        self
    }

    /// How many records may be in the handler at once; by default as many as are in flight. Others wait.
    pub fn concurrency(mut self, records: u32) -> Self {
        self.concurrency = Some(records);
        self
    }

    /// Permits that are shared with all handlers of the same delivery that name the same bulkhead; see `App::bulkhead`.
    /// Records without a permit wait, unless [`when_full`](Self::when_full) says otherwise.
    pub fn bulkhead(mut self, name: impl Into<String>) -> Self {
        self.bulkhead = Some(name.into());
        self
    }

    /// The fate of records that could be handled now if their [`bulkhead`](Self::bulkhead) had a permit left: by default they
    /// wait ([`WhenFull::Wait`]). With [`WhenFull::DeadLetter`] they become dead letters at once, unhandled; a
    /// [`FloodGuard`] bounds that. With [`WhenFull::Skip`] they are done unhandled, counted as skipped, and logged
    /// (`event=bulkhead_full`). Records that wait for another of their key, for the handler's own
    /// [`concurrency`](Self::concurrency) or [`rate`](Self::rate), or for a breaker, still wait.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// At most so many records per second; by default without a limit. Others wait.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The handler needs what this breaker guards: see `App::breaker`. While it is open the handler's partitions pause,
    /// and nothing is lost, tried or sent to the dead letters, unless the breaker says so: [`Breaker::when_open`].
    pub fn breaker(mut self, name: impl Into<String>) -> Self {
        self.breakers.push(name.into());
        self
    }

    /// How long one call of the handler may take: 5 seconds. Then its future is dropped, which is a failure like any
    /// other; what it was doing may be half done. `None` is without end.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// A call that does not return within its [`timeout`](Self::timeout) is a failure for good: its record becomes a dead
    /// letter at once, or what [`when_exhausted`](Self::when_exhausted) says. By default it is tried again.
    pub fn dead_letter_on_timeout(mut self) -> Self {
        self.timeout_is_final = true;
        self
    }

    /// A call that takes longer than this is counted as slow and told of: 1 second.
    pub fn slow_after(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.slow_after = limit.into();
        self
    }

    /// What happens to a record that fails. See [`Retry`] for the defaults.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Retry topics for what still fails after the tries in place: a topic for each delay, `<topic>.retry-1m` and so on.
    /// By default there are none. A record keeps its key there but not its place among those of its key, unless
    /// [`keep_key_order`](Self::keep_key_order) says so.
    pub fn then_topics(mut self, delays: impl IntoIterator<Item = Duration>) -> Self {
        self.retry.topics = delays.into_iter().collect();
        self
    }

    /// Keeps the order of keys through the delays of [`then_topics`](Self::then_topics): by default later records of a key
    /// overtake one that waits. What fails moves to one topic, `<topic>.held`, instead of one for each delay, and what
    /// follows of its key moves there behind it until all of that is done or dead; other keys are not concerned. A group
    /// of its own, `<group>.held`, reads it.
    ///
    /// 10,000 keys of a partition can be held at once; what fails then waits in its place, and its key with it. It costs
    /// nothing as long as nothing is held, then a request per second and a write for each record of a held key. A record
    /// that is held keeps the others of its key waiting for all the delays, and after a crash they begin anew. It needs
    /// the order of keys, and records without one stay without order unless [`null_key`](Self::null_key) says so. Let
    /// retry topics run empty before an application with them changes to this: it does not read them any more.
    pub fn keep_key_order(mut self) -> Self {
        self.retry.ordering = RetryOrdering::HoldKey;
        self
    }

    /// Sends what has waited for one of the delays of [`then_topics`](Self::then_topics) back to its own topic, behind all
    /// that is there: by default the handler gets it from the retry topic, and nobody else sees it. **Every group that reads
    /// the topic sees the record again**, each time; that is what this is for, and a warning says so at the start.
    ///
    /// It comes back to the same partition with its key, value, timestamp and headers, and with headers that tell its
    /// story; if it has none that names the event, `event_id` is added with the place where it was published, so that
    /// [`Cx::event_id`](crate::handler::Cx::event_id) stays the same for all. Attempts go on counting, and what fails
    /// again goes to the next delay. Headers on that topic can be written by anybody: those of this group are believed if
    /// they name a record before it in the same partition, and how often a record was sent back is believed from all, so
    /// that groups which all fail with it do not send it back for each other for ever. Batches are then looked at record
    /// by record.
    pub fn return_to_origin(mut self) -> Self {
        self.retry.ordering = RetryOrdering::Return;
        self
    }

    /// Dead letters for what fails for good: `<topic>.dlq`, which is the default. If they cannot be written the partition
    /// stops until they can.
    pub fn dead_letters(mut self, dead_letters: DeadLetters) -> Self {
        self.exhausted = Exhausted::DeadLetter;
        self.dead_letters = dead_letters;
        self
    }

    /// What is to happen with what fails for good, if it is not to become a dead letter.
    pub fn when_exhausted(mut self, exhausted: Exhausted) -> Self {
        self.exhausted = exhausted;
        self
    }

    /// Stops a partition whose records fail for good in numbers; by default nothing does. It is not the records then.
    pub fn flood_guard(mut self, guard: FloodGuard) -> Self {
        self.flood_guard = Some(guard);
        self
    }

    /// For batch handlers: how many records a call gets at most, 500.
    pub fn batch_size(mut self, records: usize) -> Self {
        self.batch_size = records;
        self
    }

    /// For batch handlers: how long a batch that is not full waits for more, 20 ms.
    pub fn batch_linger(mut self, time: Duration) -> Self {
        self.batch_linger = time;
        self
    }
}

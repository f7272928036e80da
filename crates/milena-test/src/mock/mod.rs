//! A consumer without a broker.

mod listener;
mod log;
mod parts;
mod script;
mod state;

pub use parts::MockRebalanceConsumer;
pub use script::{Call, MockScript};

use std::{
    collections::BTreeSet,
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

use milena_client::{
    config::{ConfigErrors, ConsumerConfig},
    consumer::{
        CloseError, CloseOptions, CommitError, ConsumerApi, ConsumerRecords, PollError, RebalanceListener,
        SubscribeError, TopicPartition, WakeupHandle,
    },
};

use listener::{AnyListener, NoListener};
use state::{Event, State, Step, Subscription};

/// A consumer that returns the records of its [`MockScript`]. For unit tests of code that takes any
/// [`ConsumerApi`].
///
/// Positions, seeks, pauses and resets are decided by the same machine as in the real consumer, so they are the same.
/// Nothing sleeps: a `poll` without records returns at once, and the clock of the script is later by its timeout.
///
/// ```
/// use std::time::Duration;
///
/// use milena_client::consumer::{ConsumerApi, RebalanceApi, TopicPartition};
/// use milena_test::MockConsumer;
///
/// // What is to be tested.
/// async fn handle_one<C: ConsumerApi>(consumer: &mut C) -> Option<String> {
///     let records = consumer.poll(Duration::from_secs(1)).await.ok()?;
///     let value = records.iter().next()?.value()?.to_vec();
///     consumer.commit_sync().await.ok()?;
///     String::from_utf8(value).ok()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut consumer = MockConsumer::default();
/// let script = consumer.script();
/// let orders = TopicPartition::new("orders", 0);
/// consumer.subscribe(["orders"]).unwrap();
/// script.rebalance([orders.clone()]);
/// script.add_records(&orders, ["first"]);
///
/// assert_eq!(handle_one(&mut consumer).await.as_deref(), Some("first"));
/// assert_eq!(script.committed(&orders), Some(1));
/// assert_eq!(handle_one(&mut consumer).await, None);
/// assert_eq!(script.now(), Duration::from_secs(1));
/// # }
/// ```
pub struct MockConsumer {
    parts: MockRebalanceConsumer,
    listener: Box<dyn AnyListener>,
    wakeup: WakeupHandle,
}

impl MockConsumer {
    /// A consumer with the same configuration as the real one. Only `group.id`, `auto.offset.reset`,
    /// `max.poll.records` and the settings of automatic commits have an effect.
    pub fn new<C>(config: C) -> Result<Self, ConfigErrors>
    where
        C: TryInto<ConsumerConfig>,
        ConfigErrors: From<C::Error>,
    {
        let config = config.try_into()?;
        let script = MockScript::new(State::new(config));
        Ok(Self {
            parts: MockRebalanceConsumer { script },
            listener: Box::new(NoListener),
            wakeup: WakeupHandle::default(),
        })
    }

    /// The script of the test. It can be used while other code owns the consumer.
    pub fn script(&self) -> MockScript {
        self.parts.script.clone()
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.parts.script.state())
    }

    /// Calls the listener for pending events; an event is done only when its callback has returned.
    async fn run_events(&mut self) -> Result<(), PollError> {
        let mut outcome = Ok(());
        while let Some(event) = self.state(|state| state.events.front().cloned()) {
            let told = self.run_event(&event).await;
            self.state(|state| {
                state.finish_event(&event);
                state.events.pop_front();
            });
            outcome = outcome.and(told);
        }
        outcome.map_err(PollError::Listener)
    }

    async fn run_event(&mut self, event: &Event) -> Result<(), milena_client::consumer::ListenerError> {
        self.state(|state| state.begin_event(event));
        match event {
            Event::Revoked(gone) => {
                // As with the real one, they go all the same.
                let _ = self.state(|state| state.commit_automatically(Some(gone)));
                self.listener.revoked(&mut self.parts, gone).await
            }
            Event::Lost(gone) => self.listener.lost(&mut self.parts, gone).await,
            Event::Assigned { added, .. } => self.listener.assigned(&mut self.parts, added).await,
        }
    }

    /// Takes the next step of the script for this poll; returns whether there is more to do.
    fn take_step(&mut self) -> Result<bool, PollError> {
        match self.state(|state| state.steps.pop_front()) {
            None => Ok(true),
            Some(Step::Rebalance { target, eagerly }) => {
                self.state(|state| state.rebalance(target, eagerly));
                Ok(true)
            }
            Some(Step::Lose) => {
                self.state(State::lose);
                Ok(true)
            }
            Some(Step::Fail(error)) => Err(error),
            Some(Step::Nothing) => Ok(false),
            Some(Step::Run(task)) => {
                task(&self.parts.script);
                Ok(true)
            }
        }
    }
}

impl Default for MockConsumer {
    /// In the group `mock`, from the earliest record on, without automatic commits.
    fn default() -> Self {
        let config = ConsumerConfig::builder("mock:9092")
            .group_id("mock")
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", false);
        Self::new(config).expect("a configuration that is right")
    }
}

impl ConsumerApi for MockConsumer {
    type Rebalancing = MockRebalanceConsumer;

    fn subscribe<T: Into<String>>(&mut self, topics: impl IntoIterator<Item = T>) -> Result<(), SubscribeError> {
        self.subscribe_with(topics, NoListener)
    }

    /// [`MockScript::rebalance`] assigns the partitions.
    fn subscribe_with<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
        listener: impl RebalanceListener<MockRebalanceConsumer> + 'static,
    ) -> Result<(), SubscribeError> {
        let topics: BTreeSet<String> = topics.into_iter().map(Into::into).collect();
        self.state(|state| state.subscribe(topics))?;
        self.listener = Box::new(listener);
        Ok(())
    }

    fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        self.subscribe_pattern_with(pattern, NoListener)
    }

    /// Whole names match, as with the real consumer. [`MockScript::rebalance`] assigns the partitions.
    fn subscribe_pattern_with(
        &mut self,
        pattern: &str,
        listener: impl RebalanceListener<MockRebalanceConsumer> + 'static,
    ) -> Result<(), SubscribeError> {
        self.state(|state| state.subscribe_pattern(pattern))?;
        self.listener = Box::new(listener);
        Ok(())
    }

    fn assign(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Result<(), SubscribeError> {
        self.state(|state| state.assign(partitions.into_iter().collect()))
    }

    fn subscription(&self) -> BTreeSet<String> {
        self.state(|state| match &state.subscription {
            Subscription::Topics(topics) => topics.clone(),
            Subscription::Pattern(_) => state.matched_topics(),
            Subscription::None | Subscription::Manual => BTreeSet::new(),
        })
    }

    async fn unsubscribe(&mut self) -> Result<(), PollError> {
        self.state(|state| {
            state.calls.push(Call::Unsubscribe);
            state.revoke_all();
        });
        let told = self.run_events().await;
        self.state(|state| {
            state.subscription = Subscription::None;
            state.positions.clear();
        });
        told
    }

    async fn poll(&mut self, timeout: Duration) -> Result<ConsumerRecords, PollError> {
        self.state(|state| state.calls.push(Call::Poll(timeout)));
        loop {
            if self.wakeup.take_wakeup() {
                return Err(PollError::Wakeup);
            }
            self.state(|state| state.begin_poll())?;
            let is_open = self.take_step()?;
            self.run_events().await?;
            if is_open {
                let records = self.state(|state| state.take_records())?;
                if !records.is_empty() {
                    return Ok(records);
                }
                if self.state(|state| state.waits && state.steps.is_empty()) {
                    self.parts.script.changed_or(&self.wakeup).await;
                    continue;
                }
            }
            self.state(|state| state.now += timeout);
            // A polling loop must let other tasks run.
            tokio::task::yield_now().await;
            return Ok(ConsumerRecords::default());
        }
    }

    fn wakeup_handle(&self) -> WakeupHandle {
        self.wakeup.clone()
    }

    async fn close_with(mut self, _options: CloseOptions) -> Result<(), CloseError> {
        let committed: Result<(), CommitError> = self.state(|state| {
            state.calls.push(Call::Close);
            state.commit_automatically(None)
        });
        self.state(State::revoke_all);
        let told = self.run_events().await;
        self.state(|state| state.closed = true);
        committed?;
        told?;
        Ok(())
    }
}

impl Deref for MockConsumer {
    type Target = MockRebalanceConsumer;

    fn deref(&self) -> &MockRebalanceConsumer {
        &self.parts
    }
}

impl DerefMut for MockConsumer {
    fn deref_mut(&mut self) -> &mut MockRebalanceConsumer {
        &mut self.parts
    }
}

impl fmt::Debug for MockConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockConsumer").finish_non_exhaustive()
    }
}

//! What goes wrong between a broker and its clients.

mod errors;
mod fault;
mod on;
mod rule;
mod throttle;

pub use fault::Fault;
pub(crate) use fault::Strikes;
pub use on::FaultsOn;
pub(crate) use rule::{Action, Rule, Rules};
pub use throttle::Throttles;

use std::{fmt, sync::Arc, time::Duration};

use milena_wire::message::Request;

use crate::proxy::{NetworkFault, State};

/// The faults of a [`TestBroker`](crate::TestBroker). They are added and taken away while clients work; clones are the
/// same faults.
///
/// ```
/// # use milena_test::{ErrorCode, TestBroker, messages::HeartbeatRequest};
/// # let broker = TestBroker::start();
/// let faults = broker.faults();
/// let fault = faults.on::<HeartbeatRequest>().nth(3).respond_error(ErrorCode::RebalanceInProgress);
/// // …
/// assert_eq!(fault.struck(), 0);
/// fault.remove();
/// ```
#[derive(Clone)]
pub struct Faults {
    state: Arc<State>,
}

impl Faults {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state }
    }

    /// A fault of one kind of request. Say which ones ([`nth`](FaultsOn::nth), [`times`](FaultsOn::times), …), then what
    /// happens to them. Where several fit a request, the oldest strikes. Requests that the broker has already are spared: a
    /// fetch that waits there for records, for example.
    pub fn on<R: Request + 'static>(&self) -> FaultsOn<R> {
        FaultsOn::new(Arc::clone(&self.state))
    }

    /// Takes all faults away. What has moved to another leader stays there.
    pub fn clear(&self) {
        self.state.rules.clear();
        self.state
            .change_conditions(|conditions| conditions.network_faults.clear());
    }

    /// Ends all connections that are open now.
    pub fn cut_connections(&self) {
        let open = self.state.connections_made();
        self.state.change_conditions(|conditions| conditions.cut_before = open);
    }

    /// The clients of now have lost their way to the broker, and nobody tells them: their connections stay open, and
    /// nothing goes through any more. New connections are well.
    pub fn half_open(&self) {
        let open = self.state.connections_made();
        self.state
            .change_conditions(|conditions| conditions.frozen_before = open);
    }

    /// Every new connection is ended as soon as it is made. It strikes once for each.
    pub fn refuse_connections(&self) -> Fault {
        self.network_fault(NetworkFault::Refuse, "new connections are refused")
    }

    /// Requests are taken and never answered, on new connections too. It strikes once for each of them. A connection that
    /// has had a request taken in this way stays silent when the fault is gone.
    pub fn stall(&self) -> Fault {
        self.network_fault(NetworkFault::Stall, "requests are swallowed")
    }

    /// Nothing goes through, and nothing is lost: all of it goes on when the fault is removed. It strikes once for each
    /// request and answer that has to wait.
    pub fn pause(&self) -> Fault {
        self.network_fault(NetworkFault::Pause, "all must wait")
    }

    /// Answers come in pieces of so many bytes, with a pause after each. It strikes once for each answer.
    pub fn drip(&self, bytes: usize, pause: Duration) -> Fault {
        assert!(bytes > 0, "a piece has at least one byte");
        self.network_fault(NetworkFault::Drip { bytes, pause }, "responses arrive in pieces")
    }

    /// How many connections clients have made so far, refused ones included.
    pub fn connections_made(&self) -> u64 {
        self.state.connections_made()
    }

    /// Lets the next node lead a partition, with a new leader epoch, and gives the id of that node. Who asks the old one
    /// hears NOT_LEADER_OR_FOLLOWER and, in versions that have a place for it, who leads now. The broker must have been
    /// started with [more than one node](crate::TestBrokerBuilder::nodes).
    pub fn move_leader(&self, topic: &str, partition: i32) -> i32 {
        self.state.move_leader(topic, partition)
    }

    fn network_fault(&self, network_fault: NetworkFault, text: &str) -> Fault {
        let strikes = Strikes::new(text.to_owned());
        let id = self.state.add_trouble(network_fault, strikes.clone());
        let state = Arc::clone(&self.state);
        let remove = move || {
            state.change_conditions(|conditions| {
                conditions.network_faults.retain(|network_fault| network_fault.id != id)
            })
        };
        Fault::new(strikes, self.state.handle.clone(), Box::new(remove))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

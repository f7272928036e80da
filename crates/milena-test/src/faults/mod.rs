//! Fault injection between a broker and its clients.

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

/// The faults of a [`TestBroker`](crate::TestBroker). They can be added and removed at any time; clones share them.
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

    /// A fault for one kind of request. First select the requests ([`nth`](FaultsOn::nth),
    /// [`times`](FaultsOn::times), …), then the effect. If several match a request, the oldest strikes.
    /// Requests that the broker has already, such as a waiting fetch, are not affected.
    pub fn on<R: Request + 'static>(&self) -> FaultsOn<R> {
        FaultsOn::new(Arc::clone(&self.state))
    }

    /// Removes all faults. Moved leaders stay where they are.
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

    /// Makes all present connections half open: they stay open, but nothing passes through them any more. New
    /// connections work.
    pub fn half_open(&self) {
        let open = self.state.connections_made();
        self.state
            .change_conditions(|conditions| conditions.frozen_before = open);
    }

    /// Every new connection is ended as soon as it is made. It strikes once for each.
    pub fn refuse_connections(&self) -> Fault {
        self.network_fault(NetworkFault::Refuse, "new connections are refused")
    }

    /// Requests are accepted and get no response, on new connections too. It strikes once for each of them. A
    /// connection that has lost a request in this way stays silent when the fault is removed.
    pub fn stall(&self) -> Fault {
        self.network_fault(NetworkFault::Stall, "requests are swallowed")
    }

    /// Nothing passes, and nothing is lost: everything continues when the fault is removed. It strikes once for
    /// each request and response that has to wait.
    pub fn pause(&self) -> Fault {
        self.network_fault(NetworkFault::Pause, "all must wait")
    }

    /// Responses arrive in pieces of this number of bytes, with a pause after each. It strikes once for each
    /// response.
    pub fn drip(&self, bytes: usize, pause: Duration) -> Fault {
        assert!(bytes > 0, "a piece has at least one byte");
        self.network_fault(NetworkFault::Drip { bytes, pause }, "responses arrive in pieces")
    }

    /// Number of connections that clients have opened so far, refused ones included.
    pub fn connections_made(&self) -> u64 {
        self.state.connections_made()
    }

    /// Moves the leadership of a partition to the next node, with a new leader epoch, and returns the id of
    /// that node. The old one responds with NOT_LEADER_OR_FOLLOWER and, in versions that have the fields, the
    /// new leader. The broker must have been started with [more than one
    /// node](crate::TestBrokerBuilder::nodes).
    pub fn move_leader(&self, topic: &str, partition: i32) -> i32 {
        self.state.move_leader(topic, partition)
    }

    fn network_fault(&self, kind: NetworkFault, text: &str) -> Fault {
        let strikes = Strikes::new(text.to_owned());
        let id = self.state.add_fault(kind, strikes.clone());
        let state = Arc::clone(&self.state);
        let remove =
            move || state.change_conditions(|conditions| conditions.network_faults.retain(|fault| fault.id != id));
        Fault::new(strikes, self.state.handle.clone(), Box::new(remove))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

//! The proxy between the broker and its clients: a port for each node that clients see.

mod connection;
mod frames;
mod leaders;
mod ports;
mod sessions;
mod state;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::runtime::{Builder, Runtime};

use crate::faults::Faults;
use ports::Port;
pub(crate) use state::{NetworkFault, State};

/// The proxy, with its own thread. It survives restarts of the broker, and so do its ports.
pub(crate) struct Proxy {
    faults: Faults,
    state: Arc<State>,
    ports: Mutex<Vec<Port>>,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Binds the ports. Connections are refused at first.
    pub(crate) fn start(nodes: u16) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("test-proxy")
            .enable_all()
            .build()
            .expect("a thread for the proxy");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let ports: Vec<Port> = (0..nodes).map(|_| Port::bind(any)).collect();
        let addresses = ports.iter().map(Port::address).collect();
        let state = Arc::new(State::new(runtime.handle().clone(), addresses));
        Self {
            faults: Faults::new(Arc::clone(&state)),
            state,
            ports: Mutex::new(ports),
            runtime: Some(runtime),
        }
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The address that the broker advertises.
    pub(crate) fn address(&self) -> SocketAddr {
        self.state.leaders().address(0)
    }

    pub(crate) fn bootstrap_servers(&self) -> String {
        let addresses: Vec<String> = self.ports().iter().map(|port| port.address().to_string()).collect();
        addresses.join(",")
    }

    /// Serves clients with the broker at `upstream`.
    pub(crate) fn open(&self, upstream: SocketAddr) {
        for (node, port) in self.ports().iter_mut().enumerate() {
            port.open(&self.state, node, upstream);
        }
    }

    /// Ends all connections, and refuses new ones.
    pub(crate) fn close(&self) {
        for port in &mut *self.ports() {
            port.close(&self.state);
        }
    }

    fn ports(&self) -> MutexGuard<'_, Vec<Port>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The one way that is allowed inside of another runtime.
            runtime.shutdown_background();
        }
    }
}

//! One life of the broker, from its start to its end.

use std::{collections::BTreeMap, net::SocketAddr, thread};

use milena_broker::Broker;
use tokio::runtime::{Builder, Runtime};

pub(super) struct Process {
    runtime: Runtime,
    broker: Broker,
    pub(super) address: SocketAddr,
}

impl Process {
    pub(super) fn start(settings: &BTreeMap<String, String>) -> Self {
        let settings = settings.clone();
        apart(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("test-broker")
                .enable_all()
                .build()
                .expect("threads for the broker");
            let broker = runtime.block_on(Broker::start(settings));
            let broker = broker.unwrap_or_else(|error| panic!("the broker does not start: {error}"));
            let address = broker.address();
            Self {
                runtime,
                broker,
                address,
            }
        })
    }

    pub(super) fn listener_address(&self, name: &str) -> Option<SocketAddr> {
        self.broker.listener_address(name)
    }

    /// Nothing is closed, but all threads have ended when this returns.
    pub(super) fn kill(self) {
        apart(move || {
            let Self { runtime, broker, .. } = self;
            drop(broker);
            drop(runtime);
        });
    }

    pub(super) fn shut_down(self) {
        apart(move || {
            let Self { runtime, broker, .. } = self;
            runtime.block_on(broker.shutdown());
        });
    }
}

/// Runs a closure on another thread: a runtime can be neither used nor dropped inside another one, and the test may
/// run in one.
fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match thread::spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

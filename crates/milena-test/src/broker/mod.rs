//! A broker in the test.

mod calls;
mod process;
mod record;
mod security;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub use calls::GroupMember;
pub use record::TestRecord;
pub(crate) use record::encode_batch_at;

use crate::{faults::Faults, proxy::Proxy};
use process::Process;
use security::{Security, SecurityOptions};

/// Members of a group are to hear of each other soon, and a name with a slip in it is not to become a topic.
const SETTINGS: &[(&str, &str)] = &[
    ("auto.create.topics.enable", "false"),
    ("group.consumer.heartbeat.interval.ms", "50"),
    ("group.consumer.min.heartbeat.interval.ms", "50"),
    ("group.min.session.timeout.ms", "100"),
];

/// A broker that lives as long as this value, with its own directory and threads.
///
/// All calls block for the few milliseconds they take, and none needs a runtime. It can therefore be used in plain
/// tests and in asynchronous ones of either flavour, also with paused time.
///
/// Clients connect to the proxy in front of it, where [`faults`](Self::faults) are injected. The methods of this
/// type bypass it.
///
/// ```
/// use std::time::Duration;
///
/// use milena_client::{config::ConsumerConfig, consumer::Consumer};
/// use milena_test::TestBroker;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let broker = TestBroker::start();
/// broker.create_topic("orders", 1);
/// broker.produce("orders", 0, ["first", "second"]);
///
/// let config = ConsumerConfig::builder(broker.bootstrap_servers())
///     .group_id("billing")
///     .set("auto.offset.reset", "earliest");
/// let mut consumer = Consumer::new(config)?;
/// consumer.subscribe(["orders"])?;
/// let mut seen = 0;
/// while seen < 2 {
///     seen += consumer.poll(Duration::from_secs(60)).await?.len();
/// }
/// consumer.commit_sync().await?;
/// assert_eq!(broker.committed("billing", "orders", 0), Some(2));
/// # Ok(())
/// # }
/// ```
pub struct TestBroker {
    settings: BTreeMap<String, String>,
    proxy: Proxy,
    process: Mutex<Option<Process>>,
    directory: tempfile::TempDir,
    security: Security,
    /// The ports of the secured listeners, once they are known.
    secured_ports: Mutex<BTreeMap<&'static str, u16>>,
}

impl TestBroker {
    /// Starts a broker with settings that suit tests.
    pub fn start() -> Self {
        Self::builder().start()
    }

    pub fn builder() -> TestBrokerBuilder {
        TestBrokerBuilder {
            settings: SETTINGS
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            nodes: 1,
            security: SecurityOptions::default(),
        }
    }

    /// The value for `bootstrap.servers`. It stays the same after a restart.
    pub fn bootstrap_servers(&self) -> String {
        self.proxy.bootstrap_servers()
    }

    /// Faults between the broker and its clients.
    pub fn faults(&self) -> &Faults {
        self.proxy.faults()
    }

    /// Ends the broker as `kill -9` does: connections break, new ones are refused, nothing is closed.
    /// Acknowledged records are still there after a [restart](Self::restart).
    pub fn kill(&self) {
        self.proxy.close();
        if let Some(process) = self.process().take() {
            process.kill();
        }
    }

    /// Ends the broker in peace.
    pub fn shut_down(&self) {
        self.proxy.close();
        if let Some(process) = self.process().take() {
            process.shut_down();
        }
    }

    /// Starts the broker again with the same data, settings and ports. One that still runs is shut down first.
    pub fn restart(&self) {
        self.shut_down();
        self.open();
    }

    fn open(&self) {
        let mut settings = self.settings.clone();
        let listeners = security::listeners(&self.security, &self.secured_ports());
        settings.insert("listeners".to_owned(), listeners);
        let process = Process::start(&settings);
        *self.secured_ports() = security::ports(&self.security, |name| process.listener_address(name));
        self.proxy.open(process.address);
        *self.process() = Some(process);
    }

    /// The broker's real address, past the proxy.
    fn address(&self) -> SocketAddr {
        let process = self.process();
        let process = process.as_ref().expect("the broker does not run: restart it first");
        process.address
    }

    fn secured_ports(&self) -> MutexGuard<'_, BTreeMap<&'static str, u16>> {
        self.secured_ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for TestBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestBroker")
            .field("bootstrap_servers", &self.bootstrap_servers())
            .field("directory", &self.directory.path())
            .finish_non_exhaustive()
    }
}

/// Builds a [`TestBroker`].
#[derive(Debug, Clone)]
pub struct TestBrokerBuilder {
    settings: BTreeMap<String, String>,
    nodes: u16,
    security: SecurityOptions,
}

impl TestBrokerBuilder {
    /// A setting of the broker under Kafka's name. `milena.durability=memory` keeps records out of files; they
    /// are lost in a restart then.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        self.settings.insert(key.into(), value.to_string());
        self
    }

    /// Shows clients a cluster of this number of nodes, between which leaders can [move](Faults::move_leader).
    /// Behind all of them is the same broker, which is node 1; it leads all partitions at first, and
    /// coordinates all groups.
    ///
    /// With more than one node there are no fetch sessions: as with a broker whose cache is full, each fetch
    /// names all of its partitions.
    #[must_use]
    pub fn nodes(mut self, nodes: u16) -> Self {
        assert!(nodes > 0, "a cluster has at least one node");
        self.nodes = nodes;
        self
    }

    pub fn start(mut self) -> TestBroker {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let proxy = Proxy::start(self.nodes);
        let advertised = format!("PLAINTEXT://{}", proxy.address());
        let path = directory.path().display().to_string();
        let security = Security::new(self.security, &mut self.settings);
        let own = [("advertised.listeners", advertised), ("log.dirs", path)];
        for (key, value) in own {
            self.settings.insert(key.to_owned(), value);
        }
        let broker = TestBroker {
            settings: self.settings,
            proxy,
            process: Mutex::new(None),
            directory,
            security,
            secured_ports: Mutex::default(),
        };
        broker.open();
        broker.create_scram_users();
        broker
    }
}

//! Brokers that cannot be reached: errors and log lines.

use std::{io, net::TcpListener, thread, time::Duration};

use milena_client::{
    admin::Admin,
    config::{AdminConfig, ConsumerConfig, ProducerConfig},
    consumer::Consumer,
    producer::{Producer, ProducerRecord},
    reachability::FailureCause,
};
use tokio::net::TcpSocket;

use crate::{broker::TestBroker, events};

const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for each address to fail once.
const SHORT: Duration = Duration::from_secs(2);

/// A reserved port without a listener.
struct Reserved {
    socket: TcpSocket,
    address: String,
}

impl Reserved {
    fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = socket.local_addr().unwrap().to_string();
        Self { socket, address }
    }

    /// Forwards all connections to a broker from now on.
    fn forward(self, broker: &str) {
        let listener = self.socket.listen(16).unwrap();
        let broker = broker.to_owned();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = tokio::net::TcpStream::connect(&broker).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
            }
        });
    }
}

#[tokio::test]
async fn a_consumer_without_a_broker_warns_at_once_and_says_when_it_is_there() {
    events::listen();
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    let dead = Reserved::new();
    let address = dead.address.clone();
    let config = ConsumerConfig::builder(&*address)
        .group_id("readers")
        .set("client.id", "patient-reader")
        .set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    assert!(consumer.poll(Duration::from_millis(200)).await.unwrap().is_empty());

    let warning = events::wait_for(&["broker_unreachable", &address]);
    assert!(warning.starts_with("WARN"), "{warning}");
    for part in ["client=\"patient-reader\"", "cause=\"refused\"", "failures=1"] {
        assert!(warning.contains(part), "no {part} in {warning}");
    }
    let unreachable = consumer.unreachable_brokers();
    assert_eq!(unreachable.len(), 1, "{unreachable:?}");
    assert_eq!(unreachable[0].address, address);
    assert_eq!(unreachable[0].cause, FailureCause::Refused);

    dead.forward(broker.address());
    while consumer.poll(PATIENCE).await.unwrap().is_empty() {}
    let mended = events::wait_for(&["broker_reachable", &address]);
    assert!(mended.starts_with("INFO"), "{mended}");
    // Many attempts have failed by then, with one log line.
    assert_eq!(events::lines(&["broker_unreachable", &address]).len(), 1);
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn missing_metadata_and_a_missing_coordinator_are_warned_of() {
    events::listen();
    let dead = Reserved::new();
    let config = ConsumerConfig::builder(&*dead.address)
        .group_id("lonely-group")
        .set("client.id", "lonely-reader");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    let polling = async { while consumer.poll(PATIENCE).await.is_ok() {} };
    let listening = tokio::task::spawn_blocking(|| {
        let metadata = events::wait_for(&["metadata_unavailable", "lonely-reader"]);
        assert!(metadata.contains("Connection refused"), "{metadata}");
        let coordinator = events::wait_for(&["coordinator_missing", "lonely-reader"]);
        assert!(coordinator.contains("lonely-group"), "{coordinator}");
    });
    tokio::select! {
        () = polling => panic!("poll has failed"),
        heard = listening => heard.unwrap(),
    }
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_warned_of() {
    events::listen();
    let broker = TestBroker::start();
    let config = ConsumerConfig::builder(broker.address()).group_id("readers");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["nowhere-to-be-found"]).unwrap();
    let polling = async { while consumer.poll(PATIENCE).await.is_ok() {} };
    let listening =
        tokio::task::spawn_blocking(|| events::wait_for(&["WARN", "topic_unavailable", "nowhere-to-be-found"]));
    tokio::select! {
        () = polling => panic!("poll has failed"),
        heard = listening => drop(heard.unwrap()),
    }
}

#[tokio::test]
async fn producers_and_admin_clients_warn_too() {
    events::listen();
    let dead = Reserved::new();
    let config = ProducerConfig::builder(&*dead.address)
        .set("client.id", "patient-writer")
        .set("max.block.ms", "1000");
    let producer = Producer::new(config).unwrap();
    assert!(producer.send(ProducerRecord::new("letters").value("a")).await.is_err());
    let config = AdminConfig::builder(&*dead.address).set("client.id", "patient-admin");
    let admin = Admin::new(config).unwrap();
    assert!(admin.within(SHORT).describe_cluster().await.is_err());
    for client in ["patient-writer", "patient-admin"] {
        events::wait_for(&["WARN", "broker_unreachable", client, &dead.address]);
    }
}

#[tokio::test]
async fn a_first_contact_that_fails_names_every_address_and_its_reason() {
    let dead = Reserved::new();
    let rude = TcpListener::bind("127.0.0.1:0").unwrap();
    let rude_address = rude.local_addr().unwrap().to_string();
    // The thread ends with the process.
    thread::spawn(move || rude.incoming().for_each(drop::<io::Result<_>>));
    let servers = format!("{},no..such..host:9092,{rude_address}", dead.address);
    let admin = Admin::new(AdminConfig::builder(&*servers)).unwrap();
    let error = admin.connect(SHORT).await.unwrap_err();
    let causes: Vec<_> = error.brokers.iter().map(|broker| broker.cause).collect();
    let expected = [
        FailureCause::Refused,
        FailureCause::NameUnknown,
        FailureCause::ClosedInHandshake,
    ];
    assert_eq!(causes, expected, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("no bootstrap server responded within 2s: "), "{text}");
    for address in [&*dead.address, "no..such..host:9092", &rude_address] {
        assert!(text.contains(&format!("{address}: ")), "{text}");
    }
}

#[tokio::test]
async fn a_first_contact_needs_only_one_server() {
    let broker = TestBroker::start();
    let dead = Reserved::new();
    // It accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = silent.local_addr().unwrap();
    let servers = format!("{silent_address},{},{}", dead.address, broker.address());
    let consumer = Consumer::new(ConsumerConfig::builder(&*servers)).unwrap();
    consumer.connect(PATIENCE).await.unwrap();
    let producer = Producer::new(ProducerConfig::builder(broker.address())).unwrap();
    producer.connect(PATIENCE).await.unwrap();
    // A second call returns at once.
    producer.connect(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_server_that_never_responds_is_named_too() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let admin = Admin::new(AdminConfig::builder(&*address)).unwrap();
    let error = admin.connect(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.brokers.len(), 1);
    assert_eq!(error.brokers[0].address, address);
    assert_eq!(error.brokers[0].cause, FailureCause::TimedOut);
}

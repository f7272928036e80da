//! TLS and SASL with our broker. `tests/outside/security.rs` does the same with Apache Kafka.

use std::{
    thread,
    time::{Duration, Instant},
};

use milena_client::{
    admin::{Admin, NewTopic, ScramChange, ScramMechanism},
    config::ConfigMap,
    consumer::{Consumer, PollError, TopicPartition},
    producer::{Producer, ProducerRecord, SendError},
    reachability::FailureCause,
};

use crate::{
    running::{self, Running},
    tls_client::TestCa,
};

const USERS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"wonder\";";
const PLAIN: &[(&str, &str)] = &[
    ("sasl.mechanism", "PLAIN"),
    ("sasl.username", "alice"),
    ("sasl.password", "wonder"),
];

/// A broker with a listener of each protocol, and its certificates.
struct Secured {
    ca: TestCa,
    broker: Option<Running>,
    _dir: tempfile::TempDir,
}

impl Secured {
    fn start(settings: &[(&str, &str)]) -> Self {
        let (dir, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
        let (keystore, truststore) = (ca.write("server.pem", "broker"), ca.ca_file());
        let (keystore, truststore) = (keystore.display().to_string(), truststore.display().to_string());
        let listeners = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,\
                         MTLS://127.0.0.1:0";
        let map = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,MTLS:SSL";
        let mut all = vec![
            ("listeners", listeners),
            ("listener.security.protocol.map", map),
            ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
            ("listener.name.sasl_plaintext.plain.sasl.jaas.config", USERS),
            ("listener.name.sasl_ssl.plain.sasl.jaas.config", USERS),
            ("ssl.keystore.location", keystore.as_str()),
            ("ssl.truststore.location", &truststore),
            ("listener.name.mtls.ssl.client.auth", "required"),
        ];
        all.extend(settings);
        let path = dir.path().to_owned();
        // Its runtime can be neither started nor dropped inside the test's runtime.
        let broker = thread::scope(|scope| scope.spawn(|| running::start(&path, &all)).join().unwrap());
        Self {
            ca,
            broker: Some(broker),
            _dir: dir,
        }
    }

    /// The settings of a client of a listener.
    fn of(&self, listener: &str, settings: &[(&str, &str)]) -> ConfigMap {
        let protocol = if listener == "MTLS" { "SSL" } else { listener };
        let address = self.broker.as_ref().unwrap().listener(listener);
        let mut map = ConfigMap::from([("security.protocol", protocol)]);
        map.set("bootstrap.servers", address);
        if protocol.ends_with("SSL") {
            map.set("ssl.truststore.location", self.ca.ca_file().display());
        }
        map.extend(settings.iter().copied());
        map
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        let broker = self.broker.take().unwrap();
        thread::spawn(move || broker.shutdown()).join().unwrap();
    }
}

async fn create_topic(settings: &ConfigMap, topic: &str) {
    let admin = Admin::new(settings.clone()).unwrap();
    let created = admin.create_topics([NewTopic::new(topic).partitions(1)]).await;
    created.into_values().for_each(|created| drop(created.unwrap()));
}

fn reader(settings: &ConfigMap, topic: &str) -> Consumer {
    let mut settings = settings.clone();
    settings.set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(settings).unwrap();
    consumer.assign([TopicPartition::new(topic, 0)]).unwrap();
    consumer
}

/// Creates a topic, writes a large record and reads it, each with a client of its own.
async fn round_trip(settings: &ConfigMap, topic: &str) {
    create_topic(settings, topic).await;
    let value: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    let producer = Producer::new(settings.clone()).unwrap();
    producer.send(ProducerRecord::new(topic).value(&value)).await.unwrap();
    let mut consumer = reader(settings, topic);
    loop {
        let records = consumer.poll(Duration::from_secs(30)).await.unwrap();
        if let Some(record) = records.iter().next() {
            assert!(record.value() == Some(&value[..]), "{topic}: other bytes");
            return;
        }
    }
}

#[tokio::test]
async fn every_listener_serves_the_client() {
    let secured = Secured::start(&[]);
    let plain = secured.of("PLAINTEXT", &[]);
    let admin = Admin::new(plain.clone()).unwrap();
    let set = ScramChange::set(ScramMechanism::Sha512, "wonder");
    let changed = admin.alter_scram_users([("alice", set)]).await;
    changed.into_values().for_each(|changed| changed.unwrap());
    let scram = [
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "alice"),
        ("sasl.password", "wonder"),
    ];
    let identity = secured.ca.write("client.pem", "alice").display().to_string();
    for (number, settings) in [
        plain,
        secured.of("SSL", &[]),
        secured.of("SSL", &[("ssl.enabled.protocols", "TLSv1.2")]),
        secured.of("SASL_PLAINTEXT", PLAIN),
        secured.of("SASL_SSL", PLAIN),
        secured.of("SASL_PLAINTEXT", &scram),
        secured.of("SASL_SSL", &scram),
        secured.of("MTLS", &[("ssl.keystore.location", &identity)]),
    ]
    .into_iter()
    .enumerate()
    {
        round_trip(&settings, &format!("topic-{number}")).await;
    }
}

#[tokio::test]
async fn a_refused_log_in_ends_the_call_and_not_the_client() {
    let secured = Secured::start(&[]);
    let wrong = [
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "alice"),
        ("sasl.password", "hunter2"),
    ];
    let settings = secured.of("SASL_SSL", &wrong);
    let mut consumer = reader(&settings, "refused");
    let began = Instant::now();
    for _ in 0..3 {
        match consumer.poll(Duration::from_secs(60)).await {
            Err(PollError::Authentication(error)) => {
                assert_eq!(error.text, "Authentication failed: Invalid username or password");
            }
            other => panic!("{other:?}"),
        }
    }
    let producer = Producer::new(settings.clone()).unwrap();
    let sent = producer.send(ProducerRecord::new("refused").value(b"x")).await;
    assert!(matches!(sent, Err(SendError::Authentication(_))), "{sent:?}");
    let admin = Admin::new(settings).unwrap();
    let error = admin.connect(Duration::from_secs(60)).await.unwrap_err();
    assert!(error.is_refused(), "{error}");
    assert_eq!(error.brokers[0].cause, FailureCause::AuthenticationFailed);
    let text = error.to_string();
    assert!(text.starts_with("no bootstrap server accepts the client: "), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn certificates_are_checked_for_their_issuer_and_name() {
    let secured = Secured::start(&[]);
    let stranger = TestCa::new();
    let mut settings = secured.of("SSL", &[]);
    settings.set("ssl.truststore.location", stranger.ca_file().display());
    let error = Admin::new(settings.clone())
        .unwrap()
        .connect(Duration::from_secs(60))
        .await;
    let error = error.unwrap_err();
    assert!(error.is_refused(), "{error}");
    settings.set("enable.ssl.certificate.verification", false);
    Admin::new(settings)
        .unwrap()
        .connect(Duration::from_secs(60))
        .await
        .unwrap();
    // The certificate has the names localhost and 127.0.0.1.
    let port = secured.broker.as_ref().unwrap().listener("SSL").port();
    let mut settings = secured.of("SSL", &[]);
    settings.set("bootstrap.servers", format!("localhost:{port}"));
    let admin = Admin::new(settings).unwrap();
    admin.connect(Duration::from_secs(60)).await.unwrap();
}

#[tokio::test]
async fn a_client_follows_the_certificate_authority_of_its_file() {
    let secured = Secured::start(&[]);
    let stranger = TestCa::new();
    let file = stranger.path().join("trusted.pem");
    std::fs::copy(stranger.ca_file(), &file).unwrap();
    let mut settings = secured.of("SSL", &[]);
    settings.set("ssl.truststore.location", file.display());
    let admin = Admin::new(settings).unwrap();
    assert!(admin.connect(Duration::from_secs(60)).await.unwrap_err().is_refused());
    std::fs::copy(secured.ca.ca_file(), &file).unwrap();
    assert_eq!(admin.reload_certificates(), Ok(true));
    admin.connect(Duration::from_secs(60)).await.unwrap();
    std::fs::write(&file, "garbage").unwrap();
    admin.reload_certificates().unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_renewed_under_load() {
    let secured = Secured::start(&[("connections.max.reauth.ms", "2000")]);
    let settings = secured.of("SASL_SSL", PLAIN);
    create_topic(&settings, "renewed").await;
    let producer = Producer::new(settings.clone()).unwrap();
    let mut consumer = reader(&settings, "renewed");
    let began = Instant::now();
    let mut count = 0_usize;
    let mut next = 0_usize;
    while began.elapsed() < Duration::from_secs(7) || next < count {
        if began.elapsed() < Duration::from_secs(7) {
            let deliveries: Vec<_> = (count..count + 20).map(|number| number.to_string()).collect();
            for value in &deliveries {
                let record = ProducerRecord::new("renewed").value(value.as_bytes());
                // The consumer shows that all were written.
                drop(producer.enqueue(record).await.unwrap());
            }
            count += deliveries.len();
        }
        for record in &consumer.poll(Duration::from_millis(5)).await.unwrap() {
            assert_eq!(record.value(), Some(next.to_string().as_bytes()));
            next += 1;
        }
    }
    for metrics in [producer.metrics(), consumer.metrics()] {
        let number = |name: &str| metrics.get(name).unwrap_or_default();
        assert!(number("successful-reauthentication-total") >= 2.0);
        assert_eq!(number("failed-reauthentication-total"), 0.0);
        assert_eq!(number("connection-close-total"), 0.0);
    }
}

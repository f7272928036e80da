//! Secured listeners of the test broker.

use std::time::Duration;

use milena_client::{config::ConsumerConfig, consumer::Consumer};
use milena_test::TestBroker;

async fn reads(broker: &TestBroker, listener: &str, settings: &[(&str, &str)]) {
    let mut config = ConsumerConfig::builder(broker.secured_bootstrap_servers(listener))
        .set("auto.offset.reset", "earliest")
        .set("security.protocol", listener)
        .set("group.id", format!("group-{listener}"));
    for (key, value) in settings {
        config = config.set(*key, *value);
    }
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    let mut seen = 0;
    while seen < 2 {
        seen += consumer.poll(Duration::from_secs(60)).await.unwrap().len();
    }
}

#[tokio::test]
async fn clients_use_tls_and_log_in() {
    let broker = TestBroker::builder()
        .require_client_certificates()
        .user("alice", "won\\der\"land")
        .start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, ["a", "b"]);
    let ca = broker.ca_file().display().to_string();
    let alice = broker.client_certificate("alice").display().to_string();
    let ca = ("ssl.truststore.location", &*ca);
    reads(&broker, "SSL", &[ca, ("ssl.keystore.location", &alice)]).await;
    let user = ("sasl.username", "alice");
    let password = ("sasl.password", "won\\der\"land");
    reads(&broker, "SASL_SSL", &[ca, user, password, ("sasl.mechanism", "PLAIN")]).await;
    broker.restart();
    reads(
        &broker,
        "SASL_PLAINTEXT",
        &[user, password, ("sasl.mechanism", "SCRAM-SHA-512")],
    )
    .await;
}

//! Examples that are applications, each with its own broker and clock.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use milena::{
    TopicPartition,
    app::projection::{FileSnapshots, Snapshots},
};
use milena_test::{TestBroker, TestKit};

use crate::{
    bulk_and_slow, enrich, mail_storm,
    order_service::{self, PaymentError, Payments},
    patterns::until,
    quotes, sales_view, tenants,
};

#[derive(Default)]
struct Till {
    is_down: AtomicBool,
    charged: Mutex<Vec<String>>,
}

impl Payments for Till {
    fn charge(&self, event_id: &str, customer: &str, _cents: i64) -> Result<String, PaymentError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(PaymentError::Down);
        }
        if customer == "broke" {
            return Err(PaymentError::Declined);
        }
        self.charged.lock().unwrap().push(event_id.to_owned());
        Ok(format!("a receipt for {customer}"))
    }
}

#[tokio::test]
async fn the_order_service_bills_what_it_can_and_keeps_the_rest() {
    let broker = TestBroker::start();
    broker.create_topic("bills", 1);
    let till = Arc::new(Till::default());
    let kit = TestKit::start_on(broker, order_service::app("", till.clone())).await;
    kit.publish("orders", ("anna", r#"{"customer":"anna","cents":100}"#))
        .await;
    kit.publish("orders", ("broke", r#"{"customer":"broke","cents":100}"#))
        .await;
    kit.publish("orders", ("odd", r#"{"customer":"odd","cents":0}"#)).await;
    kit.publish("orders", ("worse", "no order at all")).await;
    kit.settled().await;
    assert_eq!(kit.records("bills").await.len(), 1);
    kit.assert_dlq("orders", 2).await;
    // Retried in place, and after 1, 5 and 15 minutes.
    kit.advance(Duration::from_secs(22 * 60)).await;
    assert_eq!(kit.assert_dlq("orders", 3).await[2].key(), Some(&b"broke"[..]));
    till.is_down.store(true, Ordering::SeqCst);
    for customer in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] {
        let order = format!(r#"{{"customer":"{customer}","cents":5}}"#);
        kit.publish("orders", (customer, order.as_str())).await;
    }
    kit.settled().await;
    till.is_down.store(false, Ordering::SeqCst);
    kit.advance(Duration::from_secs(120)).await;
    assert_eq!(kit.records("bills").await.len(), 13);
    kit.assert_dlq("orders", 3).await;
    kit.stop().await;
}

#[tokio::test]
async fn a_breaker_ends_a_storm_of_50_000_tries() {
    let storm = mail_storm::outage(false).await;
    assert_eq!(storm.calls_while_down, 50_000);
    assert_eq!((storm.sent_when_back, storm.dead_letters), (0, mail_storm::MAILS));
    let calm = mail_storm::outage(true).await;
    assert!((10..=50).contains(&calm.calls_while_down), "{calm:?}");
    assert_eq!((calm.sent_when_back, calm.dead_letters), (mail_storm::MAILS, 0));
}

#[tokio::test]
async fn one_handler_counts_500_tenants_and_those_that_come_later() {
    const TENANTS: usize = 500;
    let broker = TestBroker::start();
    for tenant in 0..TENANTS {
        let topic = format!("events-{tenant}");
        broker.create_topic(&topic, 1);
        broker.produce(&topic, 0, ["x", "y"]);
    }
    let counts = tenants::Counts::default();
    let kit = TestKit::start_on(broker, tenants::app("", counts.clone())).await;
    let total = || counts.lock().unwrap().values().sum::<u64>();
    until("the events of 500 tenants", || total() == 1_000).await;
    kit.broker().create_topic("events-zeta", 1);
    kit.publish("events-zeta", "x").await;
    until("the event of a new tenant", || total() == 1_001).await;
    let counts = counts.lock().unwrap().clone();
    assert_eq!(counts.len(), TENANTS + 1);
    assert_eq!(counts.get("zeta"), Some(&1));
    assert_eq!(counts.values().filter(|count| **count == 2).count(), TENANTS);
    kit.stop().await;
}

#[tokio::test]
async fn sales_are_enriched_exactly_once() {
    let broker = TestBroker::start();
    broker.create_topic("rich", 1);
    let mut kit = TestKit::start_on(broker, enrich::app("", "one")).await;
    kit.publish("raw", ("k", r#"{"item":"book","cents":1000}"#)).await;
    kit.publish("raw", ("k", "nothing")).await;
    kit.advance(Duration::from_secs(1)).await;
    kit.crash().await;
    kit.advance(Duration::from_secs(1)).await;
    let rich = kit.records("rich").await;
    assert_eq!(rich.len(), 1);
    assert_eq!(
        rich[0].value(),
        Some(&br#"{"item":"book","cents":1000,"with_tax":1200}"#[..])
    );
    kit.assert_dlq("raw", 1).await;
    kit.stop().await;
}

#[tokio::test]
async fn a_view_of_sales_goes_on_from_its_last_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSnapshots::new(directory.path().join("files")).unwrap();
    goes_on_from_its_last_snapshot(files).await;
    let url = format!("sqlite://{}", directory.path().join("view.db").display());
    goes_on_from_its_last_snapshot(sales_view::in_database(&url).await.unwrap()).await;
}

async fn goes_on_from_its_last_snapshot(snapshots: impl Snapshots + Clone) {
    let broker = TestBroker::start();
    broker.create_topic("sales", 1);
    let partition = TopicPartition::new("sales", 0);
    for (run, sales) in [(1, 2), (2, 3)] {
        broker.produce("sales", 0, (0..sales).map(|_| ("fr", "1")));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopping = async {
            let _ = stopped.await;
        };
        let counter = sales_view::sales_view(&broker.bootstrap_servers(), snapshots.clone()).unwrap();
        let view = counter.view();
        let running = counter.run_until(sales_view::count, stopping);
        let expected = if run == 1 { 2 } else { 5 };
        let looking = async {
            let count = || {
                view.with(&partition, |countries, _| countries.get("fr").copied())
                    .flatten()
            };
            while count() != Some(expected) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            stop.send(()).unwrap();
        };
        let (ran, ()) = tokio::join!(running, looking);
        ran.unwrap();
    }
}

#[tokio::test]
async fn a_slow_reader_does_not_slow_a_fast_one() {
    let broker = TestBroker::start();
    broker.create_topic("clicks", 1);
    broker.create_topic("scans", 1);
    broker.produce("scans", 0, (0..6).map(|number: i32| number.to_string()));
    broker.produce("clicks", 0, (0..2_000).map(|number: i32| number.to_string()));
    let indexed = bulk_and_slow::Indexed::default();
    let running = bulk_and_slow::app(&broker.bootstrap_servers(), indexed.clone())
        .start()
        .await
        .unwrap();
    while indexed.load(Ordering::Relaxed) < 2_000 || running.counts().iter().map(|counts| counts.slow).sum::<u64>() < 6
    {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let counts = running.counts();
    let slow: Vec<&str> = counts
        .iter()
        .filter(|counts| counts.slow > 0)
        .map(|counts| counts.topics.as_str())
        .collect();
    assert_eq!(slow, ["scans"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_quote_service_answers_its_client() {
    let broker = TestBroker::start();
    broker.create_topic("quotes.requests", 2);
    let address = broker.bootstrap_servers();
    let running = quotes::service(&address).start().await.unwrap();
    let client = quotes::client(&address).await.unwrap();
    let quote = quotes::ask(&client, "ACME", 10).await.unwrap();
    let expected = quotes::Quote {
        share: "ACME".to_owned(),
        cents: 12_500,
    };
    assert_eq!(quote, expected);
    let error = quotes::ask(&client, "GHOST", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "the service failed: there is no share GHOST");
    client.close().await;
    running.stop().await.unwrap();
}

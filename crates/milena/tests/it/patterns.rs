//! The examples of single patterns, each on a broker of its own.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use milena_test::{TestBroker, TestKit, TestRecord};
use tokio::sync::Semaphore;

use crate::{back_fill, four_groups, invoices, partner_api, poison, readings};

/// Longer than anything takes, and shorter than anybody wants to wait for a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"));
}

fn with_invoices() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("invoices", 1);
    broker.produce("invoices", 0, (0..10).map(|number: i32| number.to_string()));
    broker
}

#[tokio::test]
async fn auto_commit_loses_invoices_that_the_runtime_does_not() {
    let broker = with_invoices();
    let printer = invoices::Printer::new(5);
    let address = broker.bootstrap_servers();
    let careless = {
        let printer = printer.clone();
        tokio::spawn(async move {
            invoices::careless(&address, printer)
                .await
                .map_err(|error| error.to_string())
        })
    };
    until("the commit of all", || {
        broker.committed("careless", "invoices", 0) == Some(10)
    })
    .await;
    until("half of the invoices", || printer.printed.lock().unwrap().len() == 5).await;
    careless.abort();

    let printer = invoices::Printer::new(5);
    let mut kit = TestKit::start_on(with_invoices(), invoices::app("", printer.clone())).await;
    until("half of the invoices", || printer.printed.lock().unwrap().len() == 5).await;
    // It is told which ones are done, whichever these are.
    until("the commits", || kit.running().status().replay_if_crashed_now == 0).await;
    kit.crash().await;
    printer.paper.add_permits(100);
    kit.settled().await;
    let mut printed = printer.printed.lock().unwrap().clone();
    printed.sort();
    assert_eq!(printed, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    kit.stop().await;
}

#[tokio::test]
async fn poison_among_50_000_records_is_kept_and_all_else_is_handled() {
    const RECORDS: i32 = 50_000;
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let order = |number: i32| match number {
        7 | 20_000 | 49_999 => format!("no order {number}"),
        _ => r#"{"cents":2}"#.to_owned(),
    };
    for from in (0..RECORDS).step_by(1_000) {
        broker.produce("orders", 0, (from..from + 1_000).map(order));
    }
    let turnover = poison::Turnover::default();
    let kit = TestKit::start_on(broker, poison::app("", turnover.clone())).await;
    kit.settled().await;
    assert_eq!(turnover.load(Ordering::Relaxed), i64::from(RECORDS - 3) * 2);
    let dead = kit.assert_dlq("orders", 3).await;
    assert!(dead.iter().any(|dead| dead.value() == Some(&b"no order 20000"[..])));
    kit.stop().await;
}

#[tokio::test]
async fn four_groups_see_every_order_and_the_slow_one_holds_nobody_up() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    broker.produce("orders", 0, ["a", "b"]);
    broker.produce("orders", 1, ["c"]);
    let (seen, server) = (four_groups::Seen::default(), Arc::new(Semaphore::new(0)));
    let mut running = vec![];
    for app in four_groups::apps(&broker.bootstrap_servers(), &seen, &server) {
        running.push(app.start().await.unwrap());
    }
    let count = |group: &str| seen.lock().unwrap().get(group).map_or(0, Vec::len);
    until("three groups", || {
        ["billing", "shipping", "statistics"]
            .iter()
            .all(|group| count(group) == 3)
    })
    .await;
    assert_eq!(count("mails"), 0);
    server.add_permits(3);
    until("the mails", || count("mails") == 3).await;
    for running in running {
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_reading_counts_at_most_once() {
    let meter = readings::Meter::default();
    let mut kit = TestKit::start(readings::app("", meter.clone())).await;
    for reading in ["3", "-1", "4"] {
        kit.publish("readings", reading).await;
    }
    kit.settled().await;
    kit.crash().await;
    kit.settled().await;
    let mut counted = meter.lock().unwrap().clone();
    counted.sort_unstable();
    assert_eq!(counted, [-1, 3, 4]);
    kit.assert_dlq("readings", 0).await;
    kit.stop().await;
}

#[tokio::test]
async fn a_repair_handles_its_day_once_more_and_nothing_else() {
    let broker = TestBroker::start();
    broker.create_topic("sales", 1);
    let sale = |(name, timestamp): (&str, i64)| TestRecord::new(name).timestamp(timestamp);
    let sales = [
        ("sunday", 1_000),
        ("monday", 2_000),
        ("monday too", 2_500),
        ("tuesday", 3_000),
    ];
    broker.produce("sales", 0, sales.map(sale));
    broker.commit("accounting", "sales", 0, 4);
    let books = back_fill::Books::default();
    let app = back_fill::app(&broker.bootstrap_servers(), books.clone());
    let report = back_fill::repair(app, 2_000, 3_000).await.unwrap();
    assert_eq!(*books.lock().unwrap(), ["monday", "monday too"]);
    assert_eq!(report.counts[0].success, 2);
    assert_eq!(broker.committed("accounting", "sales", 0), Some(4));
}

#[tokio::test]
async fn a_partner_gets_no_more_calls_than_agreed() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["order"; 30]);
    let calls = partner_api::Calls::default();
    let kit = TestKit::start_on(broker, partner_api::app("", calls.clone())).await;
    let count = || calls.lock().unwrap().len();
    until("the first call", || count() > 0).await;
    // Time stands still, and no second call comes.
    assert_eq!(count(), 1);
    kit.advance(Duration::from_secs(1)).await;
    assert!((2..=11).contains(&count()), "{} calls in a second", count());
    kit.advance(Duration::from_secs(2)).await;
    assert_eq!(count(), 30);
    kit.assert_dlq("orders", 0).await;
    kit.stop().await;
}

//! Examples of single patterns, each with its own broker.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use milena_test::{TestBroker, TestKit, TestRecord};
use tokio::sync::Semaphore;

use crate::{back_fill, country_counter, four_groups, invoices, partner_api, poison, readings, slow_reader};

/// Timeout of a wait.
const TIMEOUT: Duration = Duration::from_secs(60);

pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen within {TIMEOUT:?}"));
}

fn with_invoices() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("invoices", 1);
    broker.produce("invoices", 0, (0..10).map(|number: i32| number.to_string()));
    broker
}

fn printed(printer: &invoices::Printer) -> Vec<String> {
    let mut printed = printer.printed.lock().unwrap().clone();
    printed.sort();
    printed
}

#[tokio::test]
async fn auto_commit_loses_invoices() {
    let broker = with_invoices();
    let printer = invoices::Printer::new(5);
    let (address, its_printer) = (broker.bootstrap_servers(), printer.clone());
    let process = tokio::spawn(async move {
        let ended = invoices::losing(&address, its_printer).await;
        ended.map_err(|error| error.to_string())
    });
    let committed = || broker.committed("losing", "invoices", 0);
    until("the commit of all", || committed() == Some(10)).await;
    until("half of the invoices", || printed(&printer).len() == 5).await;
    process.abort();
}

#[tokio::test]
async fn auto_commit_prints_invoices_twice() {
    let broker = with_invoices();
    let printer = invoices::Printer::new(5);
    for run in 1..=2 {
        let (address, its_printer) = (broker.bootstrap_servers(), printer.clone());
        let process = tokio::spawn(async move {
            let ended = invoices::doubling(&address, its_printer).await;
            ended.map_err(|error| error.to_string())
        });
        let expected = if run == 1 { 5 } else { 15 };
        until("the invoices of a run", || printed(&printer).len() == expected).await;
        // A crash: the group expels the member, which therefore cannot commit when it is dropped.
        for member in broker.group_members("doubling") {
            broker.remove_member("doubling", &member.member_id);
        }
        process.abort();
        until("the end of the member", || broker.group_members("doubling").is_empty()).await;
        printer.paper.add_permits(10);
    }
    let expected = [
        "0", "0", "1", "1", "2", "2", "3", "3", "4", "4", "5", "6", "7", "8", "9",
    ];
    assert_eq!(printed(&printer), expected);
}

#[tokio::test]
async fn the_runtime_neither_loses_invoices_nor_prints_them_twice() {
    let printer = invoices::Printer::new(5);
    let mut kit = TestKit::start_on(with_invoices(), invoices::app("", printer.clone())).await;
    until("half of the invoices", || printed(&printer).len() == 5).await;
    // The commit covers whichever records are done.
    until("the commits", || kit.running().status().replay_if_crashed_now == 0).await;
    kit.crash().await;
    printer.paper.add_permits(100);
    kit.settled().await;
    assert_eq!(printed(&printer), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
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
async fn a_schema_change_that_spoils_50_000_records_stops_the_partition_and_loses_none() {
    const RECORDS: i64 = 50_000;
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    for _ in 0..50 {
        broker.produce("orders", 0, vec![r#"{"euros":1}"#; 1_000]);
    }
    let turnover = poison::Turnover::default();
    let kit = TestKit::start_on(broker, poison::app("", turnover.clone())).await;
    until("the stop", || !kit.running().status().is_healthy()).await;
    kit.settled().await;
    let dead = kit.records("orders.dlq").await.len();
    assert_eq!(dead, 99, "the guard stops the partition at the hundredth");
    assert_eq!(turnover.load(Ordering::Relaxed), 0);
    // The next version of the application reads both schemas and finds all other records.
    let broker = kit.stop().await;
    let kit = TestKit::start_on(broker, poison::app_of_both("", turnover.clone())).await;
    kit.settled().await;
    assert_eq!(turnover.load(Ordering::Relaxed), (RECORDS - 99) * 100);
    kit.assert_dlq("orders", 99).await;
    kit.stop().await;
}

#[tokio::test]
async fn a_slow_service_harms_the_others_in_one_group_and_not_in_three() {
    let run = |one_group| tokio::time::timeout(TIMEOUT, slow_reader::run(one_group));
    let one = run(true).await.unwrap().unwrap();
    // Each fast service saw a third of the orders, then they shared those of the slow one.
    assert_eq!(one.while_stuck, [100, 100, 0]);
    assert_eq!((one.at_end[0] + one.at_end[1], one.at_end[2]), (slow_reader::ORDERS, 0));
    let three = run(false).await.unwrap().unwrap();
    assert_eq!(three.while_stuck, [300, 300, 0]);
    assert_eq!(three.at_end, [300, 300, 300]);
}

#[tokio::test]
async fn the_country_counter_prints_its_counts_after_each_poll() {
    let broker = TestBroker::start();
    broker.create_topic("customerCountries", 1);
    broker.produce("customerCountries", 0, [("anna", "AT"), ("ben", "CZ"), ("cleo", "AT")]);
    let enough = tokio::sync::Notify::new();
    let mut printed = vec![];
    let print = |json: String| {
        if json.contains("\"AT\": 2") {
            enough.notify_one();
        }
        printed.push(json);
    };
    country_counter::run(&broker.bootstrap_servers(), enough.notified(), print)
        .await
        .unwrap();
    assert_eq!(printed.last().unwrap(), "{\n  \"AT\": 2,\n  \"CZ\": 1\n}");
    assert_eq!(broker.committed("CountryCounter", "customerCountries", 0), Some(3));
}

#[tokio::test]
async fn four_groups_see_every_order_and_the_slow_one_delays_no_other() {
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
    // The clock stands still, and no second call comes.
    assert_eq!(count(), 1);
    kit.advance(Duration::from_secs(1)).await;
    assert!((2..=11).contains(&count()), "{} calls in a second", count());
    kit.advance(Duration::from_secs(2)).await;
    assert_eq!(count(), 30);
    kit.assert_dlq("orders", 0).await;
    kit.stop().await;
}

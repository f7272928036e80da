//! At-most-once delivery: commits before handling, and records that are not lost at a shutdown or rebalance.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::prelude::*;
use milena_test::{TestBroker, TestRecord};
use tokio::sync::Semaphore;

use crate::rig::{GROUP, app, until, within};

const RECORDS: usize = 2_000;

/// Values whose handlers have started, and the permission to finish.
#[derive(Clone)]
struct Bench {
    begun: Arc<Mutex<Vec<String>>>,
    leave: Arc<Semaphore>,
}

impl Bench {
    fn new() -> Self {
        Self {
            begun: Arc::default(),
            leave: Arc::new(Semaphore::new(0)),
        }
    }

    fn begun(&self) -> usize {
        self.begun.lock().unwrap().len()
    }
}

async fn handle(Value(value): Value<String>, State(bench): State<Bench>) {
    bench.begun.lock().unwrap().push(value);
    bench.leave.acquire().await.unwrap().forget();
}

fn broker(keys: usize) -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let records = (0..RECORDS).map(|number| {
        let key = (number % keys).to_string();
        TestRecord::new(number.to_string()).key(key)
    });
    broker.produce("orders", 0, records);
    broker
}

fn committed(broker: &TestBroker) -> usize {
    let committed = broker.committed(GROUP, "orders", 0).unwrap_or(0);
    usize::try_from(committed).unwrap()
}

fn start(broker: &TestBroker, bench: &Bench, policy: impl FnOnce(Policy) -> Policy) -> App {
    app(broker)
        .state(bench.clone())
        .at_most_once("orders", handle, |it| policy(it.timeout(None)))
}

#[tokio::test]
async fn a_crash_loses_no_more_than_may_be_in_handlers() {
    for (limit, keys) in [(Some(1), 1), (Some(7), RECORDS), (None, RECORDS), (None, 1)] {
        let broker = broker(keys);
        let bench = Bench::new();
        let running = start(&broker, &bench, |policy| match limit {
            Some(limit) => policy.concurrency(limit),
            None => policy,
        });
        let running = running.start().await.unwrap();
        bench.leave.add_permits(15);
        let most = limit.unwrap_or(256) as usize;
        until("15 records and those that may follow", || {
            bench.begun() >= 15 + if keys == 1 { 1 } else { most }
        })
        .await;
        running.kill();
        let ahead = committed(&broker) - 15;
        assert!(
            ahead <= most,
            "{ahead} committed and not done, with {limit:?} and {keys} keys"
        );
    }
}

#[tokio::test]
async fn a_stop_hands_back_what_was_not_handed_out() {
    for (limit, keys) in [(Some(1), 1), (None, RECORDS), (None, 3)] {
        let broker = broker(keys);
        let bench = Bench::new();
        let first = start(&broker, &bench, |policy| match limit {
            Some(limit) => policy.concurrency(limit),
            None => policy,
        });
        let running = first.clone().start().await.unwrap();
        bench.leave.add_permits(40);
        until("some calls", || bench.begun() > 40).await;
        // Calls in progress finish during the shutdown.
        let leave = Arc::clone(&bench.leave);
        let ending = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            leave.add_permits(RECORDS);
        });
        within("the end", running.stop()).await.unwrap();
        ending.await.unwrap();
        let begun = bench.begun();
        assert!(begun < RECORDS, "all were handled");
        assert_eq!(committed(&broker), begun, "with {limit:?} and {keys} keys");
        let running = first.start().await.unwrap();
        until("the other records", || bench.begun() == RECORDS).await;
        running.stop().await.unwrap();
        let mut begun = bench.begun.lock().unwrap().clone();
        begun.sort();
        begun.dedup();
        assert_eq!(begun.len(), RECORDS, "each of them once");
    }
}

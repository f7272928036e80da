//! Time budget of consumers.

use std::time::Duration;

use milena_app::{Clock, ConsumerTimes, handler::Extract, prelude::*};
use milena_test::{
    ErrorCode, TestBroker,
    messages::{EndTxnRequest, FetchRequest, OffsetCommitRequest},
};

use crate::rig::{GROUP, app, committed, until};

/// An argument whose extraction takes three milliseconds.
struct Slowly;

impl Extract for Slowly {
    fn extract(cx: &Cx) -> Result<Self, Fault> {
        let State(clock) = State::<Clock>::extract(cx)?;
        clock.advance(Duration::from_millis(3));
        Ok(Self)
    }
}

/// A handler that takes two seconds per record.
async fn work(_argument: Slowly, State(clock): State<Clock>) {
    clock.advance(Duration::from_secs(2));
}

fn times(running: &Running) -> ConsumerTimes {
    let mut times = running.times();
    assert_eq!(times.len(), 1);
    times.remove(0)
}

#[tokio::test]
async fn decoding_and_handling_are_measured_separately() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a", "b", "c", "d", "e"]);
    let app = app(&broker).clock(clock.clone()).state(clock);
    let running = app.on("orders", work, |policy| policy).start().await.unwrap();
    until("all orders", || running.counts()[0].success == 5).await;
    let times = times(&running);
    assert_eq!((times.group.as_str(), times.topics.as_str()), (GROUP, "orders"));
    assert_eq!(times.decode, Duration::from_millis(15));
    assert_eq!(times.handler, Duration::from_secs(10));
    assert_eq!(running.counts()[0].handler_time, Duration::from_millis(10_015));
    let metric = r#"consumer_time_seconds_total{consumer="0",group="billing",topics="orders",part="decode"} 0.015"#;
    assert!(running.to_prometheus().contains(metric), "{}", running.to_prometheus());
    running.kill();
}

#[tokio::test]
async fn decoding_of_a_batch_handler_is_measured_separately_too() {
    async fn work_batch(batch: Batch<Slowly>, State(clock): State<Clock>) {
        assert_eq!(batch.len(), 5);
        clock.advance(Duration::from_secs(2));
    }
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a", "b", "c", "d", "e"]);
    let app = app(&broker).clock(clock.clone()).state(clock);
    let app = app.batch("orders", work_batch, |policy| policy.batch_size(5));
    let running = app.start().await.unwrap();
    until("all orders", || running.counts()[0].success == 5).await;
    let times = times(&running);
    assert_eq!(times.decode, Duration::from_millis(15));
    assert_eq!(times.handler, Duration::from_secs(2));
    running.kill();
}

#[tokio::test]
async fn a_slow_commit_is_measured() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a"]);
    let slow = clock.clone();
    let commits = broker.faults().on::<OffsetCommitRequest>().once();
    commits.change_response(move |_, _| slow.advance(Duration::from_secs(7)));
    let app = app(&broker).clock(clock).commit_every(1);
    let running = app.on("orders", || async {}, |policy| policy).start().await.unwrap();
    committed(&broker, GROUP, "orders", 0, 1).await;
    until("the end of the commit", || !times(&running).commit.is_zero()).await;
    let times = times(&running);
    assert_eq!(times.commit, Duration::from_secs(7));
    assert_eq!((times.decode, times.handler), (Duration::ZERO, Duration::ZERO));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_transaction_is_measured_as_a_commit() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a"]);
    let slow = clock.clone();
    let ends = broker.faults().on::<EndTxnRequest>().once();
    ends.change_response(move |_, _| slow.advance(Duration::from_secs(7)));
    let app = app(&broker).clock(clock.clone()).instance("one");
    let app = app.exactly_once("orders", || async {}, |policy| policy);
    let running = app.start().await.unwrap();
    until("the end of the transaction", || {
        // The window passes, but no time while the transaction ends.
        if running.counts()[0].success == 1 && !running.status().is_ending_transaction {
            clock.advance(Duration::from_millis(100));
        }
        !times(&running).commit.is_zero()
    })
    .await;
    assert_eq!(times(&running).commit, Duration::from_secs(7));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_consumer_with_nothing_to_read_is_idle() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a"]);
    let app = app(&broker).clock(clock.clone());
    let running = app.on("orders", || async {}, |policy| policy).start().await.unwrap();
    until("the order", || running.counts()[0].success == 1).await;
    // The consumer waits for the next record until the commit is due.
    clock.advance(Duration::from_secs(60));
    until("an idle time", || !times(&running).idle.is_zero()).await;
    let times = times(&running);
    assert_eq!((times.idle, times.fetch), (Duration::from_secs(60), Duration::ZERO));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_consumer_with_something_to_read_that_does_not_come_is_not_idle() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a"]);
    broker.produce("orders", 0, ["b"]);
    // The first fetch returns the first batch, with more available. The others return nothing.
    let app = app(&broker)
        .clock(clock.clone())
        .consumer("max.partition.fetch.bytes", 1);
    let fetches = broker.faults().on::<FetchRequest>().skip(1);
    let outage = fetches.respond_error(ErrorCode::NotLeaderOrFollower);
    let running = app.on("orders", || async {}, |policy| policy).start().await.unwrap();
    until("the first order", || running.counts()[0].success == 1).await;
    clock.advance(Duration::from_secs(3));
    until("a time of fetching", || !times(&running).fetch.is_zero()).await;
    let times = times(&running);
    assert_eq!((times.idle, times.fetch), (Duration::ZERO, Duration::from_secs(3)));
    outage.remove();
    until("the second order", || running.counts()[0].success == 2).await;
    running.stop().await.unwrap();
}

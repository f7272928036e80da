//! Applications that end or recover without a failed handler.

use std::time::Duration;

use milena_app::{AppError, Clock, prelude::*};
use milena_client::consumer::TopicPartition;
use milena_test::{
    ErrorCode, TestBroker,
    messages::{FetchRequest, ProduceRequest},
};

use crate::rig::{GROUP, app, until, within};

#[tokio::test]
async fn exactly_once_ends_if_not_even_the_dead_letter_can_be_written() {
    let broker = TestBroker::start();
    ["orders", "bills"]
        .into_iter()
        .for_each(|topic| broker.create_topic(topic, 1));
    broker.produce("orders", 0, ["a"]);
    let refused = broker.faults().on::<ProduceRequest>();
    let refused = refused.respond_error(ErrorCode::TopicAuthorizationFailed);
    let handler = || async { Done::from(OutRecord::new("bills").value("a bill")) };
    let app = app(&broker)
        .instance("one")
        .exactly_once("orders", handler, |policy| policy);
    let running = app.start().await.unwrap();
    within("the end", running.ended()).await;
    // The bill, the bill in isolation, the dead letter.
    assert!(refused.struck() >= 3, "{refused:?}");
    let error = running.stop().await.unwrap_err();
    let AppError::Unwritable {
        topic,
        partition,
        offset,
        reason,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((topic.as_str(), partition, offset), ("orders", 0, 0));
    assert!(reason.contains("TOPIC_AUTHORIZATION_FAILED"), "{reason}");
    assert_eq!(broker.committed(GROUP, "orders", 0).unwrap_or(0), 0);
}

/// An application whose consumer has read one record and gets no other, until it fetches as after a seek.
async fn frozen(broker: &TestBroker, clock: &Clock, action: WhenStalled) -> Running {
    broker.create_topic("orders", 2);
    broker.produce("orders", 0, ["a"]);
    let reads_on = |request: &FetchRequest| {
        let mut asked = request.topics.iter().flat_map(|topic| &topic.partitions);
        // After a seek the epoch of the previous record is unknown.
        !asked.any(|asked| asked.partition == 0 && (asked.fetch_offset == 0 || asked.last_fetched_epoch < 0))
    };
    let fetches = broker.faults().on::<FetchRequest>().when(reads_on);
    fetches.change_response(|_, response| {
        for partition in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
            partition.records = None;
        }
    });
    let app = app(broker).clock(clock.clone()).when_stalled(action);
    let running = app.on("orders", || async {}, |policy| policy).start().await.unwrap();
    until("the first order", || running.counts()[0].success == 1).await;
    broker.produce("orders", 0, ["b"]);
    running
}

/// Advances the clock and wakes the consumer.
fn pass(running: &Running, clock: &Clock) {
    clock.advance(Duration::from_secs(5));
    let other = TopicPartition::new("orders", 1);
    running.pause(&other);
    running.resume(&other);
}

#[tokio::test]
async fn a_reader_that_is_frozen_begins_again_where_it_stands() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    let running = frozen(&broker, &clock, WhenStalled::Retry).await;
    let began_ms = clock.now_ms();
    until("the second order", || {
        pass(&running, &clock);
        running.counts()[0].success == 2
    })
    .await;
    assert!(clock.now_ms() - began_ms > 60_000, "it did not even wait for a minute");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_is_frozen_ends_the_application_if_that_is_wanted() {
    let (broker, clock) = (TestBroker::start(), Clock::manual());
    let running = frozen(&broker, &clock, WhenStalled::End).await;
    until("the end", || {
        pass(&running, &clock);
        running.failure().is_some()
    })
    .await;
    let error = running.stop().await.unwrap_err();
    let AppError::Stalled {
        partition, offset, why, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((partition, offset), (0, 1));
    assert_eq!(why, "the lag is 1 records, but none are delivered");
}

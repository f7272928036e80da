//! Retries and dead letters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena_app::{AppError, failure, prelude::*};
use milena_test::{ErrorCode, TestBroker, TestRecord, messages::ProduceRequest};

use crate::rig::{GROUP, app, committed, header, read, text, until, within};

/// Retries with a short backoff.
fn soon(attempts: u32) -> Retry {
    Retry::exponential(Duration::from_millis(1), Duration::from_millis(2)).attempts(attempts)
}

#[tokio::test]
async fn what_fails_is_tried_again_and_then_becomes_a_dead_letter() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    let attempts = Arc::new(AtomicUsize::new(0));
    let handler = {
        let attempts = attempts.clone();
        move |Value(value): Value<String>| {
            let attempts = attempts.clone();
            async move {
                if value == "bad" {
                    attempts.fetch_add(1, Ordering::SeqCst);
                    let number: i32 = value.parse()?;
                    assert_eq!(number, 0);
                }
                Ok::<(), Fault>(())
            }
        }
    };
    let bad = TestRecord::new("bad")
        .key("k")
        .header("trace", "t1")
        .timestamp(1_700_000_000_000);
    broker.produce("orders", 1, [TestRecord::new("good"), bad, TestRecord::new("good")]);
    let running = app(&broker)
        .instance("one")
        .on("orders", handler, |policy| policy.retry(soon(3)))
        .start()
        .await
        .unwrap();
    let dead = read(&broker, "orders.dlq", 2, 1).await;
    let dead = dead.first().unwrap();
    assert_eq!((text(dead.key()), text(dead.value())), ("k", "bad"));
    assert_eq!(dead.partition(), 1);
    assert!(
        dead.timestamp() > 1_700_000_000_000,
        "retention goes by the time of the failure"
    );
    assert_eq!(header(dead, "trace").as_deref(), Some("t1"));
    let failure_record = failure::read(dead.headers()).unwrap();
    assert_eq!(
        (
            failure_record.origin.topic.as_str(),
            failure_record.origin.partition,
            failure_record.origin.offset
        ),
        ("orders", 1, 1)
    );
    assert_eq!(failure_record.origin.timestamp, 1_700_000_000_000);
    assert_eq!(failure_record.failure.reason, "invalid digit found in string");
    assert!(
        failure_record.failure.exception.ends_with("ParseIntError"),
        "{failure_record:?}"
    );
    assert_eq!(
        (failure_record.group.as_deref(), failure_record.instance.as_deref()),
        (Some(GROUP), Some("one"))
    );
    assert_eq!(failure_record.attempts, 3);
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
    committed(&broker, GROUP, "orders", 1, 3).await;
    let counts = &running.counts()[0];
    assert_eq!((counts.success, counts.failed, counts.dead_max_retries), (2, 3, 1));
    assert!(
        running
            .to_prometheus()
            .contains("consumer_dlq_max_retries_total{handler=\"orders\"} 1")
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_panic_a_poison_and_a_timeout_are_failures_and_nothing_else_suffers() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let handler = |Value(value): Value<String>| async move {
        match value.as_str() {
            "panic" => panic!("out of luck"),
            "poison" => Err(Fault::poison("never")),
            "hang" => std::future::pending().await,
            _ => Ok(()),
        }
    };
    broker.produce("orders", 0, ["panic", "poison", "hang", "fine"]);
    let running = app(&broker)
        .on("orders", handler, |policy| {
            policy.retry(soon(2)).timeout(Duration::from_millis(20))
        })
        .start()
        .await
        .unwrap();
    let dead = read(&broker, "orders.dlq", 1, 3).await;
    let mut found: Vec<(String, String, u32)> = dead
        .iter()
        .map(|dead| {
            let failure_record = failure::read(dead.headers()).unwrap();
            (
                text(dead.value()).to_owned(),
                failure_record.failure.reason,
                failure_record.attempts,
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found[0],
        (
            "hang".to_owned(),
            "the handler timed out after 20 ms; its effects may be incomplete".to_owned(),
            2
        )
    );
    assert_eq!(
        found[1],
        ("panic".to_owned(), "the handler panicked: out of luck".to_owned(), 2)
    );
    assert_eq!(found[2], ("poison".to_owned(), "never".to_owned(), 1));
    committed(&broker, GROUP, "orders", 0, 4).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_undecodable_record_becomes_a_dead_letter_with_its_own_bytes() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["7", "\u{1}not json", "8"]);
    let sum = Arc::new(AtomicUsize::new(0));
    let handler = {
        let sum = sum.clone();
        move |Event(number): Event<usize>| {
            sum.fetch_add(number, Ordering::SeqCst);
            async {}
        }
    };
    let running = app(&broker)
        .on("orders", handler, |policy| policy)
        .start()
        .await
        .unwrap();
    let dead = read(&broker, "orders.dlq", 1, 1).await;
    assert_eq!(text(dead[0].value()), "\u{1}not json");
    assert_eq!(header(&dead[0], "dlq.retry.count").as_deref(), Some("1"));
    let class = header(&dead[0], "dlq.failure.exception").unwrap();
    assert!(
        class.starts_with("milena_client::") && class.ends_with("::DeserializeError"),
        "{class}"
    );
    committed(&broker, GROUP, "orders", 0, 3).await;
    assert_eq!(sum.load(Ordering::SeqCst), 15);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn while_dead_letters_cannot_be_written_nothing_is_lost_and_then_it_goes_on() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("orders.dlq", 1);
    let outage = broker
        .faults()
        .on::<ProduceRequest>()
        .respond_error(ErrorCode::TopicAuthorizationFailed);
    let handler = |Value(value): Value<String>| async move {
        if value == "bad" {
            Err(Fault::poison("bad"))
        } else {
            Ok(())
        }
    };
    broker.produce("orders", 0, ["bad", "good"]);
    let running = app(&broker)
        .on("orders", handler, |policy| policy)
        .start()
        .await
        .unwrap();
    until("a failed dead letter", || running.counts()[0].dead_send_failed > 0).await;
    assert!(
        broker.committed(GROUP, "orders", 0).unwrap_or(0) < 1,
        "the offset moved without its dead letter"
    );
    outage.remove();
    assert_eq!(text(read(&broker, "orders.dlq", 1, 1).await[0].value()), "bad");
    committed(&broker, GROUP, "orders", 0, 2).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_application_whose_dead_letter_is_not_acknowledged_is_not_healthy() {
    let (broker, clock) = (TestBroker::start(), milena_app::Clock::manual());
    ["orders", "orders.dlq"]
        .into_iter()
        .for_each(|topic| broker.create_topic(topic, 1));
    broker.faults().on::<ProduceRequest>().drop_request();
    broker.produce("orders", 0, ["bad"]);
    let handler = || async { Err::<(), Fault>(Fault::poison("bad")) };
    let app = app(&broker).clock(clock.clone());
    let running = app.on("orders", handler, |policy| policy).start().await.unwrap();
    until("a letter", || running.status().publishing == 1).await;
    clock.advance(Duration::from_millis(4_999));
    assert!(running.status().is_healthy());
    clock.advance(Duration::from_millis(1));
    assert!(!running.status().is_healthy());
    running.kill();
}

#[tokio::test]
async fn a_fatal_error_ends_the_application_and_the_record_stays() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["fine", "fatal", "behind"]);
    let handler = |Value(value): Value<String>| async move {
        if value == "fatal" {
            Err(Fault::fatal("the disk is full"))
        } else {
            Ok(())
        }
    };
    let app = app(&broker).on("orders", handler, |policy| policy.order(Order::Partition));
    let running = app.start().await.unwrap();
    within("the end", running.ended()).await;
    let error = running.stop().await.unwrap_err();
    let AppError::Fatal { offset, reason, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((offset, reason.as_str()), (1, "the disk is full"));
    assert_eq!(broker.committed(GROUP, "orders", 0), Some(1));
}

#[tokio::test]
async fn an_open_breaker_holds_records_back_and_loses_none() {
    let broker = TestBroker::start();
    broker.create_topic("mails", 1);
    let (calls, is_down) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(std::sync::atomic::AtomicBool::new(true)),
    );
    let handler = {
        let (calls, is_down) = (calls.clone(), is_down.clone());
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
            let is_down = is_down.load(Ordering::SeqCst);
            async move {
                if is_down {
                    Err("no answer").map_err(Fault::dependency("smtp"))
                } else {
                    Ok(())
                }
            }
        }
    };
    broker.produce("mails", 0, (0..100).map(|number: i32| number.to_string()));
    let clock = milena_app::Clock::manual();
    let running = app(&broker)
        .clock(clock.clone())
        .breaker("smtp", Breaker::default())
        .on("mails", handler, |policy| policy.breaker("smtp").concurrency(10))
        .start()
        .await
        .unwrap();
    until("ten calls", || calls.load(Ordering::SeqCst) >= 10).await;
    is_down.store(false, Ordering::SeqCst);
    // After 30 s the breaker probes, closes, and everything continues.
    until("the end of all mails", || {
        clock.advance(Duration::from_secs(1));
        running.counts()[0].success == 100
    })
    .await;
    let counts = &running.counts()[0];
    assert_eq!((counts.dead_max_retries, counts.dead_non_retriable), (0, 0));
    assert!(counts.failed <= 20, "{counts:?}");
    until("the commit", || {
        clock.advance(Duration::from_secs(1));
        broker.committed(GROUP, "mails", 0) == Some(100)
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_open_breaker_makes_dead_letters_if_the_policy_says_so() {
    let broker = TestBroker::start();
    broker.create_topic("mails", 1);
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = {
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), &str>("no answer").map_err(Fault::dependency("smtp")) }
        }
    };
    broker.produce("mails", 0, (0..100).map(|number: i32| number.to_string()));
    let running = app(&broker)
        .breaker("smtp", Breaker::default().when_open(WhenOpen::DeadLetter))
        .on("mails", handler, |policy| policy.breaker("smtp").concurrency(10))
        .start()
        .await
        .unwrap();
    let dead = read(&broker, "mails.dlq", 1, 100).await;
    let unhandled = dead.iter().filter(|dead| {
        let reason = failure::read(dead.headers()).unwrap().failure.reason;
        reason == "a circuit breaker that its handler needs is open: smtp"
    });
    assert!(unhandled.count() >= 80);
    assert!(calls.load(Ordering::SeqCst) <= 20);
    committed(&broker, GROUP, "mails", 0, 100).await;
    running.stop().await.unwrap();
}

/// An application whose first call for `hangs` never returns, on a manual clock.
async fn hanging(broker: &TestBroker, clock: &milena_app::Clock, action: WhenStalled) -> Running {
    broker.create_topic("orders", 1);
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = move |Value(value): Value<String>| {
        let is_first = value == "hangs" && calls.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
        }
    };
    broker.produce("orders", 0, ["hangs", "fine"]);
    app(broker)
        .clock(clock.clone())
        .when_stalled(action)
        .on("orders", handler, |policy| policy.timeout(None))
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_call_that_holds_its_partition_up_is_cancelled_and_made_again() {
    let (broker, clock) = (TestBroker::start(), milena_app::Clock::manual());
    let running = hanging(&broker, &clock, WhenStalled::Retry).await;
    until("the commit", || {
        clock.advance(Duration::from_secs(5));
        broker.committed(GROUP, "orders", 0) == Some(2)
    })
    .await;
    let counts = &running.counts()[0];
    assert_eq!((counts.success, counts.dead_max_retries), (2, 0));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_that_holds_its_partition_up_ends_the_application_if_that_is_wanted() {
    let (broker, clock) = (TestBroker::start(), milena_app::Clock::manual());
    let running = hanging(&broker, &clock, WhenStalled::End).await;
    let passing = async {
        loop {
            clock.advance(Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within("the end", async {
        tokio::select! {
            () = running.ended() => {}
            () = passing => {}
        }
    })
    .await;
    running.kill();
}

#[tokio::test]
async fn a_call_that_takes_too_long_becomes_a_dead_letter_at_once_if_that_is_wanted() {
    async fn hang() {
        std::future::pending::<()>().await;
    }
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["one"]);
    let running = app(&broker)
        .on("orders", hang, |policy| {
            policy.timeout(Duration::from_millis(20)).dead_letter_on_timeout()
        })
        .start()
        .await
        .unwrap();
    let dead = read(&broker, "orders.dlq", 1, 1).await.remove(0);
    assert_eq!(header(&dead, "dlq.retry.count").as_deref(), Some("1"));
    running.stop().await.unwrap();
}

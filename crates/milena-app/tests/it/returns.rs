//! Records returned from retry topics to their own topic.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::prelude::*;
use milena_test::{TestKit, TestRecord};

use crate::rig::{header, text, until};

const MINUTE: Duration = Duration::from_secs(60);

/// Group, value, attempt and event id of each call.
type Calls = Arc<Mutex<Vec<(String, String, u32, String)>>>;

async fn handle(Value(value): Value<String>, cx: Cx, State(calls): State<Calls>) -> Result<(), Fault> {
    let call = (cx.group().to_owned(), value.clone(), cx.attempt(), cx.event_id());
    calls.lock().unwrap().push(call);
    if value == "unpaid" && cx.group() == "billing" {
        return Err(Fault::retry("no money"));
    }
    Ok(())
}

fn billing(calls: &Calls) -> App {
    App::new("")
        .group("billing")
        .state(calls.clone())
        .on("orders", handle, |policy| {
            policy
                .retry(Retry::none())
                .then_topics([MINUTE, 5 * MINUTE])
                .return_to_origin()
        })
}

fn calls_of(calls: &Calls, group: &str) -> Vec<(u32, String)> {
    let calls = calls.lock().unwrap();
    let of_group = calls.iter().filter(|(of, ..)| of == group);
    of_group
        .map(|(_, _, attempt, event)| (*attempt, event.clone()))
        .collect()
}

#[tokio::test]
async fn what_fails_comes_back_to_its_topic_where_all_groups_see_it_again() {
    let calls = Calls::default();
    let kit = TestKit::start(billing(&calls)).await;
    let other = App::new(kit.broker().bootstrap_servers())
        .group("audit")
        .state(calls.clone())
        .on("orders", handle, |policy| policy);
    let other = other.start().await.unwrap();
    let order = TestRecord::new("unpaid").key("anna").header("trace", "t1");
    kit.publish("orders", order.timestamp(kit.clock().now_ms())).await;
    kit.settled().await;
    assert_eq!(kit.records("orders").await.len(), 1);
    kit.advance(MINUTE).await;
    let back = kit.records("orders").await.pop().unwrap();
    assert_eq!(
        (back.offset(), text(back.key()), text(back.value())),
        (1, "anna", "unpaid")
    );
    assert_eq!(header(&back, "trace").as_deref(), Some("t1"));
    assert_eq!(header(&back, "milena.returns").as_deref(), Some("1"));
    assert_eq!(header(&back, "dlq.failure.reason").as_deref(), Some("no money"));
    kit.advance(5 * MINUTE).await;
    let dead = kit.assert_dlq("orders", 1).await;
    assert_eq!(header(&dead[0], "X-Retry-Count").as_deref(), Some("3"));
    assert_eq!(header(&dead[0], "dlq.original.offset").as_deref(), Some("0"));
    assert_eq!(header(&dead[0], "milena.returns"), None);
    let name = || "orders-0-0".to_owned();
    assert_eq!(calls_of(&calls, "billing"), [(1, name()), (2, name()), (3, name())]);
    until("the other group", || calls_of(&calls, "audit").len() == 3).await;
    // To other groups each return is a new record, with the same event id.
    assert_eq!(calls_of(&calls, "audit"), [(1, name()), (1, name()), (1, name())]);
    assert_eq!(kit.running().counts()[0].returned, 2);
    other.stop().await.unwrap();
    kit.stop().await;
}

#[tokio::test]
async fn two_groups_that_both_fail_do_not_send_a_record_back_for_ever() {
    let calls = Calls::default();
    let kit = TestKit::start(billing(&calls)).await;
    let failing = |cx: Cx, State(calls): State<Calls>| async move {
        let call = (cx.group().to_owned(), String::new(), cx.attempt(), cx.event_id());
        calls.lock().unwrap().push(call);
        Err::<(), Fault>(Fault::retry("not here either"))
    };
    let other = App::new(kit.broker().bootstrap_servers())
        .group("audit")
        .clock(kit.clock().clone())
        .state(calls.clone())
        .on("orders", failing, |policy| {
            policy
                .retry(Retry::none())
                .then_topics([MINUTE, 5 * MINUTE])
                .return_to_origin()
        });
    let other = other.start().await.unwrap();
    kit.publish("orders", ("anna", "unpaid")).await;
    until("the other group", || !calls_of(&calls, "audit").is_empty()).await;
    // The original, one return from each group, and one more from each group for each of those.
    for (at_least, minutes) in [(3, 1), (7, 5)] {
        kit.advance(minutes * MINUTE).await;
        until("what both have sent back", || {
            kit.clock().advance(Duration::from_secs(1));
            calls_of(&calls, "audit").len() >= at_least && calls_of(&calls, "billing").len() >= at_least
        })
        .await;
    }
    kit.advance(60 * MINUTE).await;
    assert_eq!(kit.records("orders").await.len(), 7);
    other.stop().await.unwrap();
    kit.stop().await;
}

#[tokio::test]
async fn headers_that_cannot_be_true_are_not_trusted() {
    let calls = Calls::default();
    let kit = TestKit::start(billing(&calls)).await;
    let claimed = |group: &str, offset: &str| {
        TestRecord::new("unpaid")
            .header("milena.returns", "1")
            .header("X-Retry-Count", "77")
            .header("dlq.original.topic", "orders")
            .header("dlq.original.partition", "0")
            .header("dlq.original.offset", offset)
            .header("dlq.consumer.group", group)
    };
    // A later record, the record itself, and one with the headers of another group.
    for record in [
        claimed("billing", "100"),
        claimed("billing", "1"),
        claimed("audit", "0"),
    ] {
        kit.publish("orders", record.timestamp(kit.clock().now_ms())).await;
    }
    let last = TestRecord::new("unpaid").header("milena.returns", "4711");
    kit.publish("orders", last.timestamp(kit.clock().now_ms())).await;
    kit.settled().await;
    let names = ["orders-0-0", "orders-0-1", "orders-0-2", "orders-0-3"];
    assert_eq!(calls_of(&calls, "billing"), names.map(|name| (1, name.to_owned())));
    // The claim that all delays are over is trusted: it harms only the writer.
    kit.assert_dlq("orders", 1).await;
    kit.stop().await;
}

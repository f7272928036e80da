//! Arguments with work around a call.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::{
    StartError,
    handler::{ArgumentError, Available, CallScope, Cx, Extract, Opened, Opening, ScopeFuture},
    prelude::*,
};
use milena_test::{TestKit, TestRecord};

/// A ledger in memory: entries count when their scope commits.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    fn log(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A scoped argument. Values that start with `old` are duplicates.
struct Page(Ledger);

struct PageScope {
    ledger: Ledger,
    is_ended: bool,
}

impl CallScope for PageScope {
    fn commit(mut self: Box<Self>) -> ScopeFuture<Result<(), Fault>> {
        self.is_ended = true;
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.ledger.log("commit");
            Ok(())
        })
    }

    fn rollback(mut self: Box<Self>) -> ScopeFuture<()> {
        self.is_ended = true;
        Box::pin(async move { self.ledger.log("rollback") })
    }
}

impl Drop for PageScope {
    fn drop(&mut self) {
        if !self.is_ended {
            self.ledger.log("dropped");
        }
    }
}

impl Extract for Page {
    const IS_SCOPED: bool = true;

    fn extract(_cx: &Cx) -> Result<Self, Fault> {
        Err(Fault::fatal("extract is not called"))
    }

    fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
        if available.delivery() == milena_app::Delivery::AtLeastOnce {
            return Ok(());
        }
        Err(ArgumentError::Refused("a Page needs at-least-once delivery".into()))
    }

    async fn open(opening: &mut Opening<'_>) -> Result<Opened<Self>, Fault> {
        tokio::task::yield_now().await;
        let ledger = opening.first()?.state::<Ledger>().unwrap().clone();
        let is_old = |cx: &Cx| cx.record().value().is_some_and(|value| value.starts_with(b"\"old"));
        let old: Vec<usize> = opening
            .records()
            .filter(|(_, cx)| is_old(cx))
            .map(|(index, _)| index)
            .collect();
        if old.len() == opening.records().count() {
            return Ok(Opened::Duplicate);
        }
        old.into_iter().for_each(|index| opening.mark_duplicate(index));
        opening.set_scope(PageScope {
            ledger: ledger.clone(),
            is_ended: false,
        });
        Ok(Opened::Ready(Self(ledger)))
    }
}

async fn note(Event(value): Event<String>, page: Page) -> Result<Done, Fault> {
    page.0.log(value.clone());
    match value.as_str() {
        "fail" => Err(Fault::poison("not this one")),
        "panic" => panic!("as asked"),
        "hang" => std::future::pending().await,
        "skip" => Ok(Done::Skip("not needed".into())),
        "again" => Ok(Done::RetryAfter(Duration::from_secs(5))),
        "known" => Ok(Done::Duplicate),
        _ => Ok(Done::Ok),
    }
}

fn app(ledger: &Ledger) -> App {
    App::new("").group("billing").state(ledger.clone())
}

async fn handled(value: &str) -> Vec<String> {
    let ledger = Ledger::default();
    let app = app(&ledger).on("orders", note, |policy| policy.retry(Retry::none()));
    let kit = TestKit::start(app).await;
    kit.publish("orders", ("anna", format!("{value:?}").as_str())).await;
    kit.settled().await;
    kit.stop().await;
    ledger.lines()
}

#[tokio::test]
async fn a_scope_is_committed_or_rolled_back_by_the_outcome() {
    assert_eq!(handled("one").await, ["one", "commit"]);
    assert_eq!(handled("skip").await, ["skip", "commit"]);
    assert_eq!(handled("fail").await, ["fail", "rollback"]);
    assert_eq!(handled("known").await, ["known", "rollback"]);
    assert_eq!(handled("again").await, ["again", "rollback"]);
    assert_eq!(handled("panic").await, ["panic", "dropped"]);
    assert!(handled("old one").await.is_empty(), "the handler is not called");
}

#[tokio::test]
async fn a_call_that_times_out_drops_its_scope() {
    let ledger = Ledger::default();
    let limit = Duration::from_secs(5);
    let app = app(&ledger).on("orders", note, |policy| policy.timeout(limit).retry(Retry::none()));
    let kit = TestKit::start(app).await;
    kit.publish("orders", ("anna", "\"hang\"")).await;
    while ledger.lines().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kit.clock().advance(limit);
    kit.settled().await;
    kit.assert_dlq("orders", 1).await;
    assert_eq!(ledger.lines(), ["hang", "dropped"]);
    kit.stop().await;
}

#[tokio::test]
async fn duplicates_are_counted_and_undecodable_records_do_not_open_a_scope() {
    let ledger = Ledger::default();
    let kit = TestKit::start(app(&ledger).on("orders", note, |policy| policy)).await;
    for value in ["\"old one\"", "not json", "\"one\""] {
        kit.publish("orders", ("anna", value)).await;
    }
    kit.settled().await;
    assert_eq!(ledger.lines(), ["one", "commit"]);
    let counts = kit.running().counts();
    let counts = counts.first().unwrap();
    assert_eq!((counts.duplicates, counts.success, counts.undecoded), (1, 1, 1));
    kit.stop().await;
}

#[tokio::test]
async fn output_outside_of_the_scope_ends_the_application() {
    let ledger = Ledger::default();
    let emit = |page: Page| async move {
        page.0.log("called");
        Done::from(OutRecord::new("bills").value("x"))
    };
    let kit = TestKit::start(app(&ledger).on("orders", emit, |policy| policy)).await;
    kit.publish("orders", ("anna", "1")).await;
    kit.running().ended().await;
    assert_eq!(ledger.lines(), ["called", "rollback"]);
}

async fn note_all(batch: Batch<Event<String>>, page: Page) -> Vec<Result<Done, Fault>> {
    let values: Vec<String> = batch.into_iter().map(|Event(value)| value).collect();
    page.0.log(values.join(" "));
    let outcome = |value: &String| match value.as_str() {
        "fail" => Err(Fault::poison("not this one")),
        _ => Ok(Done::Ok),
    };
    values.iter().map(outcome).collect()
}

#[tokio::test]
async fn a_batch_has_one_scope_without_duplicates_and_a_failed_record_does_not_take_others_along() {
    let ledger = Ledger::default();
    let broker = milena_test::TestBroker::start();
    broker.create_topic("orders", 1);
    let values = ["\"one\"", "\"old\"", "bad", "\"fail\"", "\"old\"", "\"two\""];
    broker.produce("orders", 0, values.map(TestRecord::new));
    let app = app(&ledger).batch("orders", note_all, |policy| {
        policy.order(Order::Partition).batch_size(100)
    });
    let kit = TestKit::start_on(broker, app).await;
    kit.settled().await;
    kit.advance(Duration::from_secs(1)).await;
    assert_eq!(ledger.lines().first().map(String::as_str), Some("one fail two"));
    assert_eq!(ledger.lines().get(1).map(String::as_str), Some("rollback"));
    let again: Vec<_> = ledger.lines().into_iter().skip(2).collect();
    let handled: Vec<_> = again.iter().filter(|line| *line != "commit").cloned().collect();
    assert_eq!(handled.join(" "), "one two", "{again:?}");
    kit.assert_dlq("orders", 2).await;
    let counts = kit.running().counts();
    assert_eq!(counts.first().unwrap().duplicates, 2);
    kit.stop().await;
}

#[tokio::test]
async fn an_argument_can_refuse_a_delivery_guarantee() {
    let ledger = Ledger::default();
    let error = app(&ledger)
        .at_most_once("orders", note, |policy| policy)
        .check()
        .unwrap_err();
    assert!(matches!(&error, StartError::State { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("orders: a Page needs at-least-once delivery"),
        "{error}"
    );
}

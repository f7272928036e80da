//! Trace context through applications, and spans around handlers.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::prelude::*;
use milena_client::consumer::ConsumerRecord;
use milena_test::{TestBroker, TestRecord};
use tracing::{
    Event as Told, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::rig::{app, header, read, text, until};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";

fn traced(value: &str) -> TestRecord {
    TestRecord::new(value)
        .key("anna")
        .header("traceparent", PARENT)
        .header("tracestate", "congo=t61rcWkgMzE")
}

/// All values of a header.
fn all(record: &ConsumerRecord, name: &str) -> Vec<String> {
    let headers = record.headers().filter(|header| header.key == name.as_bytes());
    headers.map(|header| text(header.value).to_owned()).collect()
}

fn assert_traced(record: &ConsumerRecord) {
    assert_eq!(all(record, "traceparent"), [PARENT], "{record:?}");
    assert_eq!(all(record, "tracestate"), ["congo=t61rcWkgMzE"], "{record:?}");
}

async fn bill(Value(value): Value<String>, cx: Cx) -> Result<Done, Fault> {
    let bill = OutRecord::new("bills").partition(0).value(value.clone());
    match value.as_str() {
        "fails" => Err(Fault::retry("no money")),
        "own" => Ok(bill.header("traceparent", OTHER).into()),
        _ => {
            let trace = cx.trace().map(|trace| trace.trace_id().to_owned());
            Ok(bill.header("seen", trace.unwrap_or_default()).into())
        }
    }
}

#[tokio::test]
async fn what_is_emitted_is_part_of_the_trace_that_it_follows_from() {
    let broker = TestBroker::start();
    ["orders", "bills"]
        .into_iter()
        .for_each(|topic| broker.create_topic(topic, 1));
    let malformed = TestRecord::new("malformed").header("traceparent", "00-nonsense");
    broker.produce("orders", 0, [traced("fine"), traced("own"), malformed]);
    let app = app(&broker).on("orders", bill, |policy| policy.order(Order::Partition));
    let running = app.start().await.unwrap();
    let bills = read(&broker, "bills", 1, 3).await;
    assert_traced(&bills[0]);
    assert_eq!(
        header(&bills[0], "seen").as_deref(),
        Some("4bf92f3577b34da6a3ce929d0e0e4736")
    );
    // A new trace does not inherit the state of another.
    assert_eq!(
        (all(&bills[1], "traceparent"), all(&bills[1], "tracestate").len()),
        (vec![OTHER.to_owned()], 0)
    );
    assert_eq!(all(&bills[2], "traceparent"), Vec::<String>::new());
    assert_eq!(header(&bills[2], "seen").as_deref(), Some(""));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn retries_and_dead_letters_carry_the_trace_on_once() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, [traced("fails")]);
    let delays = [Duration::from_millis(1), Duration::from_millis(2)];
    let app = app(&broker).on("orders", bill, |policy| policy.retry(Retry::none()).then_topics(delays));
    let running = app.start().await.unwrap();
    for topic in ["orders.retry-1ms", "orders.retry-2ms", "orders.dlq"] {
        assert_traced(&read(&broker, topic, 1, 1).await[0]);
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_record_of_a_held_key_carries_the_trace_on_once() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, [traced("fails"), traced("fine")]);
    broker.create_topic("bills", 1);
    let app = app(&broker).on("orders", bill, |policy| {
        let policy = policy.retry(Retry::none()).then_topics([Duration::from_millis(1)]);
        policy.keep_key_order()
    });
    let running = app.start().await.unwrap();
    assert_traced(&read(&broker, "orders.dlq", 1, 1).await[0]);
    assert_traced(&read(&broker, "bills", 1, 1).await[0]);
    for held in read(&broker, "orders.held", 1, 1).await {
        assert_traced(&held);
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn what_follows_from_many_records_is_part_of_no_trace() {
    async fn sum(batch: Batch<Value<String>>) -> Done {
        OutRecord::new("bills")
            .partition(0)
            .value(batch.len().to_string())
            .into()
    }
    let broker = TestBroker::start();
    ["orders", "bills"]
        .into_iter()
        .for_each(|topic| broker.create_topic(topic, 1));
    broker.produce("orders", 0, [traced("a"), traced("b")]);
    let app = app(&broker).batch("orders", sum, |policy| {
        policy.batch_size(2).batch_linger(Duration::from_secs(600))
    });
    let running = app.start().await.unwrap();
    let bills = read(&broker, "bills", 1, 1).await;
    assert_eq!((text(bills[0].value()), all(&bills[0], "traceparent").len()), ("2", 0));
    running.kill();
}

/// Log lines with their spans.
#[derive(Clone, Default)]
struct Log {
    spans: Arc<Mutex<Vec<String>>>,
    inside: Arc<Mutex<Vec<u64>>>,
    lines: Arc<Mutex<Vec<String>>>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "milena_app::call" || metadata.target() == "test"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut text = attributes.metadata().name().to_owned();
        attributes.record(&mut Fields(&mut text));
        let mut spans = self.spans.lock().unwrap();
        spans.push(text);
        span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let mut spans = self.spans.lock().unwrap();
        values.record(&mut Fields(&mut spans[id.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Told<'_>) {
        let mut line = String::new();
        event.record(&mut Fields(&mut line));
        let inside = self.inside.lock().unwrap().last().copied();
        let span = inside.map(|id| self.spans.lock().unwrap()[id as usize - 1].clone());
        self.lines
            .lock()
            .unwrap()
            .push(format!("{}:{line}", span.unwrap_or_default()));
    }

    fn enter(&self, id: &span::Id) {
        self.inside.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, _id: &span::Id) {
        self.inside.lock().unwrap().pop();
    }
}

#[tokio::test]
async fn what_handlers_log_is_inside_a_span_that_names_the_record() {
    async fn tell(Value(value): Value<String>, cx: Cx) -> Result<(), Fault> {
        // The span stays the same after a yield to other tasks.
        tokio::task::yield_now().await;
        tracing::info!(target: "test", value);
        if cx.attempt() == 1 {
            Err(Fault::retry("once more"))
        } else {
            Ok(())
        }
    }
    async fn tell_all(batch: Batch<Value<String>>) {
        tracing::info!(target: "test", count = batch.len());
    }
    let broker = TestBroker::start();
    ["orders", "bills"]
        .into_iter()
        .for_each(|topic| broker.create_topic(topic, 1));
    broker.produce(
        "orders",
        0,
        [traced("a"), TestRecord::new("b").header("traceparent", "nonsense")],
    );
    broker.produce("bills", 0, [traced("c"), traced("d")]);
    let log = Log::default();
    // With a single subscriber, concurrent tests that call handlers would disable the spans for all threads.
    let _another = tracing::Dispatch::new(Log::default());
    let listening = tracing::subscriber::set_default(log.clone());
    let soon = Retry::exponential(Duration::from_millis(1), Duration::from_millis(1));
    let app = app(&broker).on("orders", tell, |policy| policy.order(Order::Partition).retry(soon));
    let app = app.batch("bills", tell_all, |policy| {
        policy.batch_size(2).batch_linger(Duration::from_secs(600))
    });
    let running = app.start().await.unwrap();
    until("all calls", || {
        running.counts().iter().map(|counts| counts.success).sum::<u64>() == 4
    })
    .await;
    running.stop().await.unwrap();
    drop(listening);
    let mut lines = log.lines.lock().unwrap().clone();
    lines.sort();
    let call = |offset: i32, attempt: i32| {
        format!("call handler=\"orders\" topic=\"orders\" partition=0 offset={offset} attempt={attempt}")
    };
    let trace = "trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"";
    let expected = [
        "call handler=\"bills\" topic=\"bills\" partition=0 offset=0 attempt=1 records=2: count=2".to_owned(),
        format!("{} {trace}: value=\"a\"", call(0, 1)),
        format!("{} {trace}: value=\"a\"", call(0, 2)),
        format!("{}: value=\"b\"", call(1, 1)),
        format!("{}: value=\"b\"", call(1, 2)),
    ];
    assert_eq!(lines, expected);
}

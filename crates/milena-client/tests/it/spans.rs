//! Tracing spans of calls, with the client that they belong to.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::Consumer,
    producer::Producer,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::broker::TestBroker;

/// All spans of this thread, one per line.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<String>>);

impl Visit for Spans {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0.lock().unwrap(), " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("milena")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        self.0.lock().unwrap().push_str(attributes.metadata().name());
        attributes.record(&mut self.clone());
        self.0.lock().unwrap().push('\n');
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

#[tokio::test]
async fn rebalances_commits_and_transactions_are_spans() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a"]);
    let spans = Spans::default();
    // With a single dispatcher, parallel tests would disable the callsites for all threads.
    let _another = tracing::Dispatch::new(Spans::default());
    let listening = tracing::subscriber::set_default(spans.clone());

    let config = ConsumerConfig::builder(broker.address())
        .group_id("readers")
        .set("client.id", "reader")
        .set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    while consumer.poll(Duration::from_secs(60)).await.unwrap().is_empty() {}
    consumer.commit_sync().await.unwrap();
    consumer.close().await.unwrap();

    let config = ProducerConfig::builder(broker.address())
        .set("client.id", "writer")
        .set("transactional.id", "writer");
    let producer = Producer::new(config).unwrap();
    producer.init_transactions().await.unwrap();
    producer.close().await.unwrap();

    drop(listening);
    let spans = spans.0.lock().unwrap().clone();
    for expected in [
        "rebalance client=reader",
        "commit client=reader",
        "transaction client=writer",
    ] {
        assert!(spans.contains(expected), "no {expected} in\n{spans}");
    }
}

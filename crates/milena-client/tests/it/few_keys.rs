//! The warning about a topic with fewer keys than partitions.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};

use milena_client::{
    config::ProducerConfig,
    producer::{Producer, ProducerRecord},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::broker::TestBroker;

/// All warnings of this thread, one per line.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<String>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _attributes: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
        self.0.lock().unwrap().push('\n');
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

/// The log lines while records with these keys are sent to a topic of three partitions.
async fn said(setting: (&str, &str), keys: usize, records: usize) -> String {
    let broker = TestBroker::start();
    broker.create_topic("letters", 3);
    let config = ProducerConfig::builder(broker.address()).set(setting.0, setting.1);
    let producer = Producer::new(config).unwrap();
    let warnings = Warnings::default();
    let listening = tracing::subscriber::set_default(warnings.clone());
    for number in 0..records {
        let key = (number % keys).to_string();
        drop(
            producer
                .enqueue(ProducerRecord::new("letters").key(&key))
                .await
                .unwrap(),
        );
    }
    drop(listening);
    producer.close().await.unwrap();
    warnings.0.lock().unwrap().clone()
}

#[tokio::test]
async fn fewer_keys_than_partitions_are_warned_of_once() {
    let by_default = ("acks", "all");
    let warning = said(by_default, 2, 7_000).await;
    assert_eq!(warning.lines().count(), 1, "{warning}");
    assert!(warning.contains("topic=\"letters\""), "{warning}");
    assert!(
        warning.contains("2 distinct keys, fewer than the 3 partitions"),
        "{warning}"
    );
    assert!(
        said(("partitioner", "fnv1a"), 2, 7_000)
            .await
            .contains("2 distinct keys")
    );

    assert_eq!(said(by_default, 3, 7_000).await, "");
    assert_eq!(said(by_default, 2, 2_000).await, "", "too early to say");
    assert_eq!(said(("partitioner.ignore.keys", "true"), 2, 7_000).await, "");
    assert_eq!(said(("partitioner", "random"), 2, 7_000).await, "");
}

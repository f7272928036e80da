//! Examples with a database.

use std::time::Duration;

use milena::prelude::*;

use crate::{double_invoices, embedded::Embedded, orders};

/// Values of the first `count` records of the topic.
async fn announced(broker: &Embedded, group: &str, count: usize) -> Vec<String> {
    let config = ConsumerConfig::builder(broker.address())
        .group_id(group)
        .auto_offset_reset(AutoOffsetReset::Earliest);
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["orders.events"]).unwrap();
    let mut values = vec![];
    while values.len() < count {
        for record in &consumer.poll(Duration::from_secs(1)).await.unwrap() {
            values.push(record.value_as::<String>(&Plain).unwrap());
        }
    }
    values
}

#[tokio::test]
async fn an_order_is_announced_after_a_crash_only_with_an_outbox() {
    let broker = Embedded::start().await;
    broker.create_topic("orders.events", 1).await;
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("shop.db").display());
    let database = orders::open(&url).await.unwrap();
    let producer = Producer::new(ProducerConfig::builder(broker.address())).unwrap();
    orders::without_outbox(&database, &producer, 5, 3).await.unwrap();
    // Orders 1, 2 and 3 are in the database.
    assert_eq!(announced(&broker, "before", 2).await, ["1", "2"]);

    orders::with_outbox(&database, 5, 3).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let address = broker.address();
    let stopped = async move {
        let _ = stopped.await;
    };
    let (relayed, mut values) = tokio::join!(orders::relay(database, &address, stopped), async {
        let values = announced(&broker, "after", 5).await;
        stop.send(()).unwrap();
        values
    });
    relayed.unwrap();
    // Order 3 is lost; 4, 5 and 6 are not. They are aggregates of their own, so they come in any order.
    values.sort_unstable();
    assert_eq!(values, ["1", "2", "4", "5", "6"]);
}

#[tokio::test]
async fn an_invoice_is_written_once_only_with_a_tx() {
    let broker = Embedded::start().await;
    broker.create_topic("orders", 1).await;
    let address = broker.address();
    double_invoices::place_orders(&address).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite://{}", directory.path().join(name).display());
    let (_, pool) = double_invoices::open(&url("doubling.db")).await.unwrap();
    double_invoices::run(double_invoices::doubling(&address, &pool))
        .await
        .unwrap();
    let counted = |one, two, three| [("1", one), ("2", two), ("3", three)].map(|(id, count)| (id.to_owned(), count));
    assert_eq!(double_invoices::invoices(&pool).await.unwrap(), counted(2, 3, 2));

    let (database, pool) = double_invoices::open(&url("once.db")).await.unwrap();
    double_invoices::run(double_invoices::once(&address, &database))
        .await
        .unwrap();
    assert_eq!(double_invoices::invoices(&pool).await.unwrap(), counted(1, 1, 1));
}

/// The Python program on the page is that of the example.
#[test]
fn the_page_has_the_python_example() {
    let page = include_str!("../../../../docs/effects.md");
    let example = include_str!("../../examples/outbox_writer.py");
    assert!(page.contains(&format!("```python\n{example}```")));
}

//! A hot tenant: nine of ten orders belong to one customer. With the default partitioner all of them are in one
//! partition, and one reader has to handle them. The partitioner for hot keys spreads that key over four partitions, at
//! the price of its order. All other keys stay where they are, in order.
//!
//! `cargo run -p milena --example hot_tenant`; the broker is in the example.

use std::{error::Error, sync::Arc};

use milena::{
    prelude::*,
    producer::partition::{BuiltIn, HotKeys, HotKeysConfig, Partitioner},
};
use milena_test::TestBroker;

pub const ORDERS: usize = 1000;
const PARTITIONS: i32 = 8;

/// Number of orders per partition, and the hot tenant's part of them.
pub async fn spread(partitioner: Arc<dyn Partitioner>) -> Result<Vec<(usize, usize)>, Box<dyn Error>> {
    let broker = TestBroker::start();
    broker.create_topic("orders", PARTITIONS);
    let config = ProducerConfig::builder(broker.bootstrap_servers());
    let producer = Producer::with_partitioner(config, partitioner)?;
    let mut deliveries = vec![];
    for number in 0..ORDERS {
        let small = format!("tenant-{number}");
        let tenant = if number % 10 == 0 { small.as_str() } else { "giant" };
        let order = ProducerRecord::new("orders").key(tenant).value("an order");
        deliveries.push((tenant == "giant", producer.enqueue(order).await?));
    }
    let mut counts = vec![(0, 0); usize::try_from(PARTITIONS)?];
    for (is_hot, delivery) in deliveries {
        let written = delivery.await?;
        if let Some(count) = counts.get_mut(usize::try_from(written.partition)?) {
            count.0 += 1;
            count.1 += usize::from(is_hot);
        }
    }
    producer.close().await?;
    Ok(counts)
}

pub fn usual() -> Arc<dyn Partitioner> {
    Arc::new(BuiltIn::default())
}

/// By default a key is hot with more than 10,000 records per minute; here with 100.
pub fn for_hot_keys() -> Arc<dyn Partitioner> {
    let config = HotKeysConfig {
        records_per_minute: 100,
        ..HotKeysConfig::default()
    };
    Arc::new(HotKeys::new(BuiltIn::default(), config))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for (name, partitioner) in [("usual", usual()), ("for hot keys", for_hot_keys())] {
        println!("partitioner: {name}");
        for (partition, (all, hot)) in spread(partitioner).await?.into_iter().enumerate() {
            println!("  partition {partition}: {all:>3} orders, {hot:>3} of them of the hot tenant");
        }
    }
    Ok(())
}

//! A hot tenant: nine of ten orders are of one customer, and with the usual partitioner all of them are in one partition,
//! which one reader has to cope with alone. The partitioner for hot keys sees that and spreads that key over four
//! partitions. It says that the order of that key is given up for it; all other keys stay where they are, in order.
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

/// How many orders each partition got, and how many of the hot tenant's.
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

/// By default a key is hot with more than 10,000 records in a minute; here it is so with 100.
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
        println!("with the partitioner that is {name}:");
        for (partition, (all, hot)) in spread(partitioner).await?.into_iter().enumerate() {
            println!("  partition {partition}: {all:>3} orders, {hot:>3} of them of the hot tenant");
        }
    }
    Ok(())
}

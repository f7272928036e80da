//! Producing through librdkafka, as most programs outside of Java do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::{Scenario, loaded};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::Connection,
};

const RATE: &str = "produce with librdkafka, MB/s";
const CPU: &str = "produce with librdkafka, broker CPU s/GB";

pub const SCENARIO: Scenario = Scenario {
    name: "librdkafka",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(2.0)), (CPU, Bar::Shown)],
};

const VALUE_SIZE: usize = 1_000;

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    Connection::open(&broker.address)?.create_topic("rd", 1, &[])?;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &broker.address)
        .set("acks", "all")
        .create()?;
    let cost = loaded(&broker, || {
        let value = vec![7; VALUE_SIZE];
        let count = scale.bytes() / VALUE_SIZE;
        let began = Instant::now();
        for _ in 0..count {
            send(&producer, &value)?;
        }
        producer.flush(Duration::from_secs(120)).context("cannot flush")?;
        Ok((count * VALUE_SIZE, began.elapsed().as_secs_f64()))
    })?;
    Ok(vec![
        figure(RATE, cost.megabytes_per_second),
        figure(CPU, cost.cpu_seconds_per_gigabyte),
    ])
}

fn send(producer: &BaseProducer, value: &[u8]) -> Result<()> {
    loop {
        match producer.send(BaseRecord::<(), [u8]>::to("rd").payload(value)) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                producer.poll(Duration::from_millis(1));
            }
            Err((error, _)) => bail!(error),
        }
    }
}

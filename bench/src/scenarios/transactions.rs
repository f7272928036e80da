//! Transactions of ten records, one after the other, by a producer of version 2.

use std::time::Instant;

use anyhow::{Result, ensure};
use milena_wire::{
    messages::*,
    records::{Attributes, BatchBuilder, BatchOptions},
};

use super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const RATE: &str = "transactions of 10 records, per s";

pub const SCENARIO: Scenario = Scenario {
    name: "transactions",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(5.0))],
};

const WARM_UP: usize = 200;
const COUNT: usize = 2_000;
const CONCURRENT_TRANSACTIONS: i16 = 51;
/// Error codes of a coordinator that is starting: not available, loading, not the coordinator.
const NOT_YET: [i16; 3] = [14, 15, 16];

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let mut connection = Connection::open(&broker.address)?;
    connection.create_topic("letters", 1, &[])?;
    let find = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["bench".into()],
        ..Default::default()
    };
    while connection.call(&find, 4)?.coordinators[0].error_code != 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let init = InitProducerIdRequest {
        transactional_id: Some("bench".into()),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let mut producer = loop {
        let response = connection.call(&init, 5)?;
        match response.error_code {
            0 => break (response.producer_id, response.producer_epoch),
            error => ensure!(NOT_YET.contains(&error), "no producer id: error {error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let mut began = Instant::now();
    for i in 0..WARM_UP + COUNT {
        if i == WARM_UP {
            began = Instant::now();
        }
        producer = transaction(&mut connection, producer)?;
    }
    Ok(vec![figure(RATE, COUNT as f64 / began.elapsed().as_secs_f64())])
}

/// Writes and commits; returns the producer's next id and epoch.
fn transaction(connection: &mut Connection, (producer_id, producer_epoch): (i64, i16)) -> Result<(i64, i16)> {
    let mut batch = BatchBuilder::new(BatchOptions {
        attributes: Attributes::default().with_transactional(true),
        producer_id,
        producer_epoch,
        base_sequence: 0,
        ..BatchOptions::default()
    });
    for _ in 0..10 {
        raw::append(&mut batch, b"key", &[7; 100]);
    }
    let produce = ProduceRequest {
        transactional_id: Some("bench".into()),
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce_request::TopicProduceData {
            name: "letters".into(),
            partition_data: vec![produce_request::PartitionProduceData {
                records: Some(batch.finish()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    // Kafka may still be busy with the end of the last one.
    while_concurrent(|| Ok(connection.call(&produce, 12)?.responses[0].partition_responses[0].error_code))?;
    let end = EndTxnRequest {
        transactional_id: "bench".into(),
        producer_id,
        producer_epoch,
        committed: true,
        ..Default::default()
    };
    let mut next = (producer_id, producer_epoch);
    while_concurrent(|| {
        let ended = connection.call(&end, 5)?;
        next = (ended.producer_id, ended.producer_epoch);
        Ok(ended.error_code)
    })?;
    Ok(next)
}

fn while_concurrent(mut call: impl FnMut() -> Result<i16>) -> Result<()> {
    loop {
        match call()? {
            0 => return Ok(()),
            error => ensure!(error == CONCURRENT_TRANSACTIONS, "refused: error {error}"),
        }
        // Asking again at once would only keep the broker from its work.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

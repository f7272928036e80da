//! `milena txn`.

use milena_wire::{
    compression::Codec,
    messages::InitProducerIdRequest,
    records::{Attributes, BatchOptions},
};
use serde_json::json;

use super::{cells, fails, json, prints};
use crate::{
    client::{batch_with, produce_request},
    process::Process,
};

/// Leaves a transaction open, with one record in the partition.
fn open_transaction(broker: &Process, id: &str) {
    let mut client = broker.client();
    let init = InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let producer = client.call(&init, 5);
    let options = BatchOptions {
        attributes: Attributes::default().with_transactional(true),
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        base_sequence: 0,
        ..Default::default()
    };
    let mut request = produce_request("letters", 0, batch_with(&["open"], Codec::None, options));
    request.transactional_id = Some(id.into());
    let response = client.call(&request, 12);
    assert_eq!(
        response.responses[0].partition_responses[0].error_code, 0,
        "{response:?}"
    );
}

#[test]
fn transactions_are_listed_described_and_aborted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    open_transaction(&broker, "payments");
    let listed = prints(&broker, &["txn", "list"]);
    let lines = cells(&listed);
    assert_eq!(lines[0], ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]);
    assert_eq!((lines[1][0], lines[1][1], lines[1][3]), ("payments", "1", "Ongoing"));
    assert_eq!(json(&broker, &["txn", "list", "--pattern", "wages"]), json!([]));
    let described = json(&broker, &["txn", "describe", "payments"]);
    assert_eq!(described[0]["topic_partitions"], json!(["letters-0"]));
    assert_eq!(described[0]["transaction_timeout_ms"], 60_000);
    let unknown = fails(&broker, &["txn", "describe", "wages"]);
    assert!(
        unknown.starts_with("milena: transactional id wages: TRANSACTIONAL_ID_NOT_FOUND (105)"),
        "{unknown}"
    );

    let elsewhere = fails(
        &broker,
        &["txn", "abort", "-t", "letters", "-p", "0", "--start-offset", "7"],
    );
    assert_eq!(
        elsewhere,
        "milena: no transaction starts at offset 7 of letters-0; open transactions start at 0\n"
    );
    let fenced = prints(&broker, &["txn", "abort", "payments"]);
    assert!(fenced.starts_with("fenced payments: producer id "), "{fenced}");
    let described = json(&broker, &["txn", "describe", "payments"]);
    assert_eq!(described[0]["topic_partitions"], json!([]));

    open_transaction(&broker, "wages");
    let aborted = prints(
        &broker,
        &["txn", "abort", "-t", "letters", "-p", "0", "--start-offset", "2"],
    );
    assert_eq!(aborted, "aborted the transaction at offset 2 of letters-0\n");
    let nothing = fails(
        &broker,
        &["txn", "abort", "-t", "letters", "-p", "0", "--start-offset", "2"],
    );
    assert_eq!(nothing, "milena: no transaction is open in letters-0\n");
    let nameless = fails(&broker, &["txn", "abort"]);
    assert!(
        nameless.starts_with("milena: no transaction given; name a transactional id"),
        "{nameless}"
    );
}

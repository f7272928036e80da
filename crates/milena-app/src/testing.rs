//! Records for tests, made without a broker.

use bytes::Bytes;
use milena_client::consumer::{ConsumerRecords, TopicPartition};
use milena_wire::pool::BufferPool;
use milena_wire::records::{BatchBuilder, BatchOptions, Batches, Header, NewRecord, RecordDecoder, RecordSet};

/// One record with these headers.
pub(crate) fn record_with_headers(headers: &[(Vec<u8>, Option<Bytes>)]) -> ConsumerRecords {
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(key, value)| Header {
            key,
            value: value.as_deref(),
        })
        .collect();
    decoded(&[NewRecord {
        timestamp: 0,
        key: None,
        value: Some(b"value"),
        headers: &headers,
    }])
}

/// Records with these values, in one batch.
pub(crate) fn records_with_values(values: &[&str]) -> ConsumerRecords {
    let records = values.iter().map(|value| NewRecord {
        timestamp: 0,
        key: None,
        value: Some(value.as_bytes()),
        headers: &[],
    });
    decoded(&records.collect::<Vec<_>>())
}

fn decoded(records: &[NewRecord<'_>]) -> ConsumerRecords {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for record in records {
        builder.append(record).unwrap();
    }
    let bytes = builder.finish();
    let mut set = RecordSet::default();
    for batch in Batches::new(bytes) {
        let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
        batch.unwrap().decode_into(&mut decoder, &mut set).unwrap();
    }
    let mut records = ConsumerRecords::default();
    records.add(&TopicPartition::new("orders", 0), None, set);
    records
}

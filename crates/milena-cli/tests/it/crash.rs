//! SIGKILL under load, repeatedly: every acknowledged record survives, in order, once.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use milena_wire::{
    compression::Codec,
    messages::{InitProducerIdRequest, ProduceRequest},
    records::BatchOptions,
};

use crate::{
    client::{Client, batch_with, produce_request, values},
    process::Process,
};

const ROUNDS: usize = 8;
const WRITERS: usize = 3;

/// A producer with its own partition. After a crash it retries the batch that was not acknowledged.
struct Writer {
    partition: i32,
    producer_id: i64,
    acknowledged: i32,
}

impl Writer {
    /// Writes until the connection breaks.
    fn write(&mut self, address: &str, total: &AtomicUsize) {
        let mut client = Client::connect(address);
        while let Some(response) = client.try_call(&self.request(), 12) {
            let produced = &response.responses[0].partition_responses[0];
            assert_eq!(
                (produced.error_code, produced.base_offset),
                (0, i64::from(self.acknowledged))
            );
            self.acknowledged += self.batch_size();
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Derived from the acknowledged count, so that a retry is the same batch.
    fn request(&self) -> ProduceRequest {
        let first = self.acknowledged;
        let texts: Vec<String> = (first..first + self.batch_size()).map(|i| i.to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let options = BatchOptions {
            producer_id: self.producer_id,
            producer_epoch: 0,
            base_sequence: first,
            ..BatchOptions::default()
        };
        produce_request("letters", self.partition, batch_with(&texts, Codec::None, options))
    }

    fn batch_size(&self) -> i32 {
        1 + self.acknowledged % 4
    }
}

fn crash_under_load(dir: &Path, arguments: &[&str]) {
    let broker = Process::start(dir, arguments);
    let mut client = broker.client();
    client.create_topic("letters", WRITERS as i32, &[("segment.bytes", "1048576")]);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|partition| Writer {
            partition: partition as i32,
            producer_id: client
                .call(
                    &InitProducerIdRequest {
                        transactional_id: None,
                        ..Default::default()
                    },
                    4,
                )
                .producer_id,
            acknowledged: 0,
        })
        .collect();
    broker.kill();
    for round in 0..ROUNDS {
        let broker = Process::start(dir, arguments);
        let total = Arc::new(AtomicUsize::new(0));
        let address = broker.address.clone();
        let writing: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                let (address, total) = (address.clone(), Arc::clone(&total));
                thread::spawn(move || {
                    writer.write(&address, &total);
                    writer
                })
            })
            .collect();
        // A different amount of work in each round, so that crashes hit different moments.
        while total.load(Ordering::Relaxed) < 200 + 97 * round {
            thread::yield_now();
        }
        broker.kill();
        writers = writing.into_iter().map(|writer| writer.join().unwrap()).collect();
    }
    let broker = Process::start(dir, arguments);
    let mut client = broker.client();
    for writer in &writers {
        check(&mut client, writer);
    }
    assert!(broker.terminate().success());
}

/// Checks that the writer's partition has its numbers in order; the batch in flight at the end may be missing.
fn check(client: &mut Client, writer: &Writer) {
    let mut offset = 0;
    loop {
        let fetched = client.fetch("letters", writer.partition, offset);
        let records = values(fetched.records.as_ref().unwrap());
        if records.is_empty() {
            break;
        }
        for (at, value) in records {
            assert_eq!((at, value), (offset, offset.to_string()));
            offset += 1;
        }
    }
    let in_flight = writer.batch_size();
    assert!((writer.acknowledged..=writer.acknowledged + in_flight).contains(&(offset as i32)));
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    crash_under_load(dir.path(), &[]);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed_while_it_syncs() {
    let dir = tempfile::tempdir().unwrap();
    crash_under_load(dir.path(), &["--durability", "fsync"]);
}

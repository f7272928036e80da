//! The least that reading can cost: one blocking socket, one Fetch of all partitions after the other.

use anyhow::Result;
use bytes::Bytes;
use milena_wire::messages::*;

use super::{
    Job,
    tally::{PATIENCE, Tally},
    walk::Walker,
};
use crate::raw::{self, Connection};

/// The last version that names topics and has fields of fixed size.
const FETCH: i16 = 11;

pub fn read(job: &Job) -> Result<()> {
    let mut tally = Tally::start(job);
    let mut connection = Connection::open(&job.address)?;
    let mut walker = Walker::default();
    let mut offsets = vec![0; job.partitions as usize];
    while !tally.is_done() {
        connection.send(&fetch_frame(&job.topic, &offsets)?)?;
        let length = connection.receive()?;
        tally.polled(false)?;
        walker.walk(&connection.buffer[..length], &mut offsets, &mut tally)?;
    }
    tally.report()
}

/// A fetch from these offsets, with the default limits of Java's consumer.
fn fetch_frame(topic: &str, offsets: &[i64]) -> Result<Bytes> {
    let partitions = offsets
        .iter()
        .enumerate()
        .map(|(partition, offset)| fetch_request::FetchPartition {
            partition: partition as i32,
            fetch_offset: *offset,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        });
    let request = FetchRequest {
        max_wait_ms: PATIENCE.as_millis() as i32,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![fetch_request::FetchTopic {
            topic: topic.into(),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    raw::encode(&request, FETCH)
}

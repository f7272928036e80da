//! Kafka's producer snapshot, version 1: recovery starts from it in place of the whole log.
//!
//! ```text
//! 0 version i16 = 1   2 crc u32 (CRC-32C of all that follows)   6 count i32, then for each producer:
//!   producer id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64,
//!   coordinator epoch i32, first offset of the open transaction i64
//! ```

use std::path::Path;

use bytes::{Buf, BufMut};
use milena_invariant::invariant;

use crate::{
    disk::{self, Disk},
    error::{Doing, StorageError},
    producers::{Producer, Producers, SnapshotEntry},
};

const VERSION: i16 = 1;
const HEADER_SIZE: usize = 6;
const ENTRY_SIZE: usize = 46;

pub(crate) fn write(disk: &dyn Disk, path: &Path, producers: &Producers) -> Result<(), StorageError> {
    let content = encode(producers);
    // Recovery starts from this file, so it must be readable.
    invariant!(decode(&content).is_ok(), "producer_snapshot_is_readable");
    disk::replace_file(disk, path, &content).doing("write", path)
}

pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Producers, StorageError> {
    let content = disk::read_file(disk, path).doing("read", path)?;
    decode(&content).map_err(|reason| StorageError::damaged(path, reason))
}

fn encode(producers: &Producers) -> Vec<u8> {
    let mut entries = Vec::new();
    entries.put_i32(producers.iter().count() as i32);
    for (producer_id, producer) in producers.iter() {
        let entry = producer.to_snapshot();
        entries.put_i64(producer_id);
        entries.put_i16(entry.epoch);
        entries.put_i32(entry.last_sequence);
        entries.put_i64(entry.last_offset);
        entries.put_i32(entry.offset_delta);
        entries.put_i64(entry.timestamp);
        entries.put_i32(entry.coordinator_epoch);
        entries.put_i64(entry.transaction_start);
    }
    let mut content = Vec::with_capacity(HEADER_SIZE + entries.len());
    content.put_i16(VERSION);
    content.put_u32(crc32c::crc32c(&entries));
    content.extend_from_slice(&entries);
    content
}

fn decode(content: &[u8]) -> Result<Producers, &'static str> {
    let (mut header, mut entries) = content.split_at_checked(HEADER_SIZE).ok_or("it is too short")?;
    if header.get_i16() != VERSION {
        return Err("its version is not 1");
    }
    if header.get_u32() != crc32c::crc32c(entries) {
        return Err("its checksum is wrong");
    }
    let count = entries.try_get_i32().map_err(|_| "it is too short")?;
    if usize::try_from(count).ok() != Some(entries.len() / ENTRY_SIZE) || entries.len() % ENTRY_SIZE != 0 {
        return Err("it does not have the entries it announces");
    }
    let mut producers = Producers::default();
    while entries.has_remaining() {
        let producer_id = entries.get_i64();
        let entry = SnapshotEntry {
            epoch: entries.get_i16(),
            last_sequence: entries.get_i32(),
            last_offset: entries.get_i64(),
            offset_delta: entries.get_i32(),
            timestamp: entries.get_i64(),
            coordinator_epoch: entries.get_i32(),
            transaction_start: entries.get_i64(),
        };
        producers.restore(producer_id, Producer::restored(&entry));
    }
    Ok(producers)
}

#[cfg(test)]
mod tests {
    use milena_wire::records::{Attributes, BatchHeader};

    use super::*;

    #[test]
    fn a_snapshot_keeps_the_last_batch_and_the_open_transaction() {
        let mut producers = Producers::default();
        producers.apply(&BatchHeader {
            base_offset: 40,
            length: 0,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: Attributes::default().with_transactional(true),
            last_offset_delta: 4,
            base_timestamp: 1,
            max_timestamp: 2,
            producer_id: 9,
            producer_epoch: 3,
            base_sequence: 0,
            record_count: 5,
        });
        let content = encode(&producers);
        assert_eq!(decode(&content), Ok(producers));
        for place in 0..content.len() {
            let mut damaged = content.clone();
            damaged[place] ^= 1;
            assert!(decode(&damaged).is_err(), "byte {place}");
            assert!(decode(&content[..place]).is_err(), "cut at {place}");
        }
    }
}

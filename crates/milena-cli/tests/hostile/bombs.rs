//! Decompression bombs: small batches that become large, and batches whose counts are lies.

use bytes::Bytes;
use milena_wire::{compression::Codec, frame, records::BatchOptions};

use crate::{
    client::{batch_with, produce_request},
    frames::TOPIC,
};

/// The size of the bombs when decompressed: many times the largest batch that a topic takes.
const BOMB_BYTES: usize = 200 << 20;
const RECORD_BYTES: usize = 1 << 20;

/// Produce requests with bombs of every codec.
///
/// A topic with another codec, with `compression.type`, makes the broker decompress; so do old versions of the request.
pub fn requests() -> Vec<Bytes> {
    let record = "0".repeat(RECORD_BYTES);
    let records = vec![record.as_str(); BOMB_BYTES / RECORD_BYTES];
    let mut all = vec![];
    for codec in Codec::ALL.iter().filter(|codec| **codec != Codec::None) {
        let batch = batch_with(&records, *codec, BatchOptions::default());
        let request = produce_request(TOPIC, 3, batch);
        for version in [3, 7, 12] {
            if let Ok(frame) = frame::encode_request(&request, version, 7, Some(&"evil".into())) {
                all.push(frame.into_bytes());
            }
        }
    }
    all
}

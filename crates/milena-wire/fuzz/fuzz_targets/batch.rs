//! Untrusted record data of any format. Checksums are not verified, so that damage gets past them.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use milena_wire::{
    pool::BufferPool,
    records::{Batches, ControlRecord, RecordDecoder, RecordSet},
};

fuzz_target!(|data: &[u8]| {
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
    let mut set = RecordSet::default();
    for batch in Batches::new(Bytes::copy_from_slice(data)) {
        let Ok(batch) = batch else { break };
        let _ = batch.verify();
        if batch.decode_into(&mut decoder, &mut set).is_err() {
            continue;
        }
        for record in set.iter() {
            let owned = record.to_owned().detach();
            assert_eq!(owned.value(), record.value());
            assert_eq!(record.headers().len(), record.headers().count());
            let _ = ControlRecord::parse(&record);
        }
    }
});

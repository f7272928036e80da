//! Untrusted compressed data, for each codec.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milena_wire::compression::{Codec, Decompressor};

const LIMIT: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let [codec, input @ ..] = data else { return };
    let codec = Codec::ALL[usize::from(*codec) % Codec::ALL.len()];
    let mut out = Vec::new();
    let _ = Decompressor::new().decompress(codec, input, &mut out, LIMIT);
    assert!(out.len() <= LIMIT);
});

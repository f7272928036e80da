//! Untrusted request frames: the length, the header, and the first of the bodies that a broker decodes.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use milena_wire::{
    frame::{self, RequestFrame},
    messages::ApiVersionsRequest,
};

fuzz_target!(|data: &[u8]| {
    if let Some((prefix, _)) = data.split_first_chunk() {
        let _ = frame::frame_length(*prefix, 100 << 20);
    }
    if let Ok(request) = RequestFrame::parse(Bytes::copy_from_slice(data)) {
        let _ = request.body::<ApiVersionsRequest>();
    }
});

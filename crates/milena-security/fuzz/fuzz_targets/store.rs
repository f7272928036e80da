//! Key stores and certificates of any format, with and without a password.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milena_security::{fuzzing, principal};

fuzz_target!(|data: &[u8]| {
    fuzzing::read_store(data);
    let _ = principal::subject(data);
});

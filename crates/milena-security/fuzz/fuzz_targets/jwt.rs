//! Tokens of clients and key sets of issuers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milena_security::jwt::{self, Jwks, UnsecuredValidation, Validation};

const KEYS: &[u8] = include_bytes!("../../tests/fixtures/keys.json");
const NOW_MS: i64 = 1_800_000_000_000;

fuzz_target!(|data: &[u8]| {
    let _ = Jwks::parse(data);
    let Ok(token) = str::from_utf8(data) else { return };
    let keys = Jwks::parse(KEYS).expect("a fixture");
    let _ = jwt::key_id(token);
    let _ = jwt::inspect(token, "scope", "sub");
    let _ = jwt::verify(token, &keys, &Validation::new(NOW_MS));
    let _ = jwt::verify_unsecured(token, &UnsecuredValidation::new(NOW_MS));
});

//! Rules of a config, applied to the rest of the input as a name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milena_security::principal::PrincipalMapper;

fuzz_target!(|text: &str| {
    let (rules, name) = text.split_once('\n').unwrap_or((text, "CN=alice,OU=Users"));
    if let Ok(mapper) = PrincipalMapper::parse(rules) {
        let _ = mapper.map(name);
    }
});

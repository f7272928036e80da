//! Log-in texts of configs. A parsed one can be written and parses to the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milena_security::jaas;

fuzz_target!(|text: &str| {
    let Ok(entry) = jaas::parse(text) else { return };
    let quote = |text: &str| {
        format!(
            "\"{}\"",
            text.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
                .replace('\r', "\\r")
        )
    };
    let mut written = format!("{} {:?}", quote(&entry.module), entry.flag);
    for (key, value) in &entry.options {
        written.push_str(&format!(" {}={}", quote(key), quote(value.expose())));
    }
    written.push(';');
    assert_eq!(jaas::parse(&written), Ok(entry));
});

//! Our batches before Kafka's own reader.

use std::{env, fmt::Write as _, fs, process};

use milena_wire::compression::Codec;

use crate::{describe::describe, sample_batches, xtask};

#[test]
fn kafkas_reader_sees_in_our_batches_what_we_put_there() {
    let cases = Codec::ALL
        .into_iter()
        .flat_map(sample_batches::data_batches)
        .chain(sample_batches::special_batches());
    let (mut written, mut expected) = (String::new(), String::new());
    for (name, bytes) in cases {
        let hex = bytes
            .iter()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let _ = writeln!(written, "case {name} {hex}");
        let _ = write!(expected, "case {name} {hex}\n{}", describe(&bytes));
    }
    let file = env::temp_dir().join(format!("milena-batches-{}.txt", process::id()));
    fs::write(&file, written).unwrap();
    let seen = xtask(&["golden", "--read-batches", file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();
    for (seen, expected) in seen.lines().zip(expected.lines()) {
        assert_eq!(seen, expected);
    }
    assert_eq!(seen.lines().count(), expected.lines().count());
}

//! librdkafka, through kcat.

use std::process::Command;

use crate::{
    process::Process,
    programs::{kcat, run},
};

#[test]
fn kcat_writes_and_reads_with_every_codec() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let kcat = |arguments: &[&str], input: &str| kcat(&broker.address, arguments, input);
    let mut expected = String::new();
    for (offset, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let value = format!("a letter that went by {codec}, {codec}, {codec}");
        kcat(&["-P", "-t", "letters", "-K:", "-z", codec], &format!("key:{value}\n"));
        expected.push_str(&format!("{offset} key {value}\n"));
    }
    let format = "%o %k %s\n";
    let read = kcat(
        &["-C", "-t", "letters", "-o", "beginning", "-e", "-q", "-f", format],
        "",
    );
    assert_eq!(read, expected);
    let listed = kcat(&["-L"], "");
    assert!(listed.contains("topic \"letters\" with 1 partitions"), "{listed}");
    let offset = kcat(&["-Q", "-t", "letters:0:0"], "");
    assert_eq!(offset, "letters [0] offset 0\n");
    // Idempotent, with acknowledgements from all, many small batches.
    let many: String = (0..5_000).map(|i| format!("{i}\n")).collect();
    let idempotent = ["-P", "-t", "many", "-X", "enable.idempotence=true", "-X", "acks=all"];
    kcat(&idempotent, &many);
    let read = kcat(&["-C", "-t", "many", "-o", "beginning", "-e", "-q"], "");
    assert_eq!(read, many);
    assert!(broker.terminate().success());
}

#[test]
fn kcat_and_our_consumer_print_the_same_records() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let kcat = |arguments: &[&str], input: &str| kcat(&broker.address, arguments, input);
    let with_headers = ["-P", "-t", "letters", "-K:", "-H", "from=Prague", "-H", "empty="];
    kcat(&with_headers, "key:value\n:no key\n");
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        // Nothing after the colon means a null value.
        let lines = format!("{codec}:{}\n{codec}:\nno colon\n", codec.repeat(100));
        kcat(&["-P", "-t", "letters", "-K:", "-Z", "-z", codec], &lines);
    }
    let format = "%t %p %o %T %K %k %S %s %h %%\\t\\n";
    let theirs = kcat(
        &["-C", "-t", "letters", "-o", "beginning", "-e", "-q", "-f", format],
        "",
    );
    let arguments = ["-b", &broker.address, "-t", "letters", "--exit-at-end", "-f", format];
    let ours = run(
        Command::new(env!("CARGO_BIN_EXE_milena"))
            .arg("consume")
            .args(arguments),
        "",
    );
    assert_eq!(ours.lines().count(), 17, "{ours}");
    assert_eq!(ours, theirs);
    assert!(broker.terminate().success());
}

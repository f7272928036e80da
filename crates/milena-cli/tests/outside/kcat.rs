//! librdkafka, through kcat.

use crate::{process::Process, programs::kcat};

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

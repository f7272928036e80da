//! Output of `milena topic skew`.

use std::fmt::Write as _;

use milena_app::json::Text;
use milena_client::producer::partition::skew::{KeyCount, PartitionSkew, SkewReport};
use serde::Serialize;

use crate::output::{Table, counted};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    topic: &'a str,
    /// Whether the range was read completely.
    complete: bool,
    records: u64,
    bytes: u64,
    record_ratio: Option<f64>,
    byte_ratio: Option<f64>,
    partitions: Vec<Partition<'a>>,
}

#[derive(Serialize)]
struct Partition<'a> {
    partition: i32,
    records: u64,
    bytes: u64,
    record_share: f64,
    byte_share: f64,
    without_key: u64,
    top_keys: Vec<Key<'a>>,
}

#[derive(Serialize)]
struct Key<'a> {
    key: Text<'a>,
    at_least: u64,
    at_most: u64,
}

pub(super) fn document<'a>(topic: &'a str, report: &'a SkewReport, complete: bool) -> Document<'a> {
    let partitions = report.partitions.iter().map(|partition| Partition {
        partition: partition.partition,
        records: partition.records,
        bytes: partition.bytes,
        record_share: partition.record_share,
        byte_share: partition.byte_share,
        without_key: partition.without_key,
        top_keys: partition.top_keys.iter().map(key).collect(),
    });
    Document {
        topic,
        complete,
        records: report.records,
        bytes: report.bytes,
        record_ratio: report.record_ratio,
        byte_ratio: report.byte_ratio,
        partitions: partitions.collect(),
    }
}

fn key(count: &KeyCount) -> Key<'_> {
    Key {
        key: Text(&count.key),
        at_least: count.at_least,
        at_most: count.at_most,
    }
}

const COLUMNS: [&str; 8] = [
    "TOPIC",
    "PARTITION",
    "RECORDS",
    "RECORDS%",
    "BYTES",
    "BYTES%",
    "WITHOUT-KEY",
    "TOP-KEYS",
];

pub(super) fn table(topic: &str, report: &SkewReport, complete: bool) -> String {
    let mut table = Table::new(&COLUMNS);
    for partition in &report.partitions {
        table.row(row(topic, partition));
    }
    let mut text = table.write();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}", summary(report));
    if !complete {
        let _ = writeln!(text, "Interrupted: the figures cover only the records read so far.");
    }
    text
}

fn row(topic: &str, partition: &PartitionSkew) -> [String; 8] {
    let keys = partition
        .top_keys
        .iter()
        .map(|count| shown_key(count, partition.records));
    [
        topic.to_owned(),
        partition.partition.to_string(),
        partition.records.to_string(),
        format!("{:.1}", 100.0 * partition.record_share),
        partition.bytes.to_string(),
        format!("{:.1}", 100.0 * partition.byte_share),
        partition.without_key.to_string(),
        keys.collect::<Vec<_>>().join(", "),
    ]
}

/// A key with its share of the partition's records.
fn shown_key(count: &KeyCount, records: u64) -> String {
    let percent = |number: u64| 100.0 * number as f64 / records.max(1) as f64;
    let key = String::from_utf8_lossy(&count.key);
    // Keys may contain control characters.
    let key: String = key.chars().flat_map(char::escape_debug).collect();
    if count.at_least == count.at_most {
        format!("{key} {:.1}%", percent(count.at_most))
    } else {
        format!("{key} {:.1}-{:.1}%", percent(count.at_least), percent(count.at_most))
    }
}

fn summary(report: &SkewReport) -> String {
    let (Some(records), Some(bytes)) = (report.record_ratio, report.byte_ratio) else {
        return format!(
            "{}, {}: nothing to compare.",
            counted(report.records, "record"),
            counted(report.bytes, "byte")
        );
    };
    format!(
        "{}, {}.\nFullest partition: {records:.2} times the mean records, {bytes:.2} times the mean bytes.",
        counted(report.records, "record"),
        counted(report.bytes, "byte")
    )
}

#[cfg(test)]
mod tests {
    use milena_client::producer::partition::skew::Skew;

    use super::*;

    #[test]
    fn an_interrupted_report_says_so() {
        let mut skew = Skew::new(1, 1);
        skew.add(0, Some(b"k"), 5);
        let report = skew.report();
        let shown = |complete| table("t", &report, complete);
        assert!(shown(false).ends_with("Interrupted: the figures cover only the records read so far.\n"));
        assert!(!shown(true).contains("interrupted"));
        let json = serde_json::to_string(&document("t", &report, false)).unwrap();
        assert!(json.contains("\"complete\":false"));
    }

    #[test]
    fn counts_that_are_not_sure_are_shown_as_such() {
        let count = KeyCount {
            key: b"k".to_vec(),
            at_least: 10,
            at_most: 25,
        };
        assert_eq!(shown_key(&count, 100), "k 10.0-25.0%");
    }
}

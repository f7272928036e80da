//! Offsets in a CSV file, in the format of kafka-consumer-groups.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use milena_client::consumer::TopicPartition;

/// Offsets by group and partition.
pub(super) type Offsets = BTreeMap<String, BTreeMap<TopicPartition, i64>>;

/// Reads a file. Lines without a group belong to `group`.
pub(super) fn read(path: &Path, group: Option<&str>) -> Result<Offsets> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, group).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str, group: Option<&str>) -> Result<Offsets> {
    let mut offsets = Offsets::new();
    let lines = text.lines().enumerate();
    for (place, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let number = place + 1;
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        let (group, topic, partition, offset) = match (cells.as_slice(), group) {
            ([topic, partition, offset], Some(group)) => (group, *topic, *partition, *offset),
            ([group, topic, partition, offset], _) => (*group, *topic, *partition, *offset),
            ([_, _, _], None) => bail!("line {number} has no group; name one group on the command line"),
            _ => bail!("line {number} is not TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET"),
        };
        let partition: i32 = partition
            .parse()
            .ok()
            .filter(|partition| *partition >= 0)
            .with_context(|| format!("line {number}: {partition:?} is not a partition number"))?;
        let offset: i64 = offset
            .parse()
            .ok()
            .filter(|offset| *offset >= 0)
            .with_context(|| format!("line {number}: {offset:?} is not an offset"))?;
        let partition = TopicPartition::new(topic, partition);
        let earlier = offsets
            .entry(group.to_owned())
            .or_default()
            .insert(partition.clone(), offset);
        ensure!(earlier.is_none(), "line {number} repeats {partition} of group {group}");
    }
    ensure!(!offsets.is_empty(), "the file is empty");
    Ok(offsets)
}

/// One line of the file; without a group if the file has only one.
pub(super) fn line(group: Option<&str>, topic: &str, partition: i32, offset: i64) -> String {
    match group {
        Some(group) => format!("{group},{topic},{partition},{offset}\n"),
        None => format!("{topic},{partition},{offset}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_name_their_group() {
        let offsets = parse("letters,0,7\n\"letters\",1,8\n", Some("readers")).unwrap();
        let expected = [
            (TopicPartition::new("letters", 0), 7),
            (TopicPartition::new("letters", 1), 8),
        ];
        assert_eq!(offsets, [("readers".to_owned(), expected.into())].into());
        let offsets = parse("a,letters,0,7\n\nb,letters,0,8\n", None).unwrap();
        assert_eq!(offsets.keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (text, named) in [
            ("letters,0\n", "line 1 is not TOPIC,PARTITION,OFFSET"),
            ("letters,0,1\nletters,x,1\n", "line 2: \"x\" is not a partition number"),
            ("letters,0,-1\n", "line 1: \"-1\" is not an offset"),
            (
                "letters,0,1\nletters,0,2\n",
                "line 2 repeats letters-0 of group readers",
            ),
            ("\n", "the file is empty"),
        ] {
            let error = parse(text, Some("readers")).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
        let error = parse("letters,0,1\n", None).unwrap_err().to_string();
        assert!(error.contains("has no group"), "{error}");
    }
}

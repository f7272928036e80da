//! Every kind of damage to every file of a data directory, after a clean stop and after a crash: the broker serves
//! everything or reports the loss, and assigns no offset twice.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use milena_broker::doctor::{self, Level};
use milena_log::disk::{self, Disk, MemoryDisk};
use milena_wire::{
    errors::ErrorCode,
    messages::{metadata_request::MetadataRequestTopic, *},
};

use crate::{
    client::{Client, batch, values},
    running::{start_on, try_start_on},
};

const SETTINGS: [(&str, &str); 2] = [
    ("offsets.topic.num.partitions", "1"),
    ("auto.create.topics.enable", "false"),
];
const PARTITIONS: [(&str, i32, i64); 3] = [("letters", 0, 6), ("letters", 1, 4), ("bills", 0, 2)];

/// The content of each file by its path.
type Files = BTreeMap<String, Vec<u8>>;

fn files_of(disk: &MemoryDisk, dir: &str, files: &mut Files) {
    for entry in disk.list(Path::new(dir)).unwrap() {
        let path = format!("{dir}/{}", entry.name);
        match entry.is_dir {
            true => files_of(disk, &path, files),
            false => drop(files.insert(path.clone(), disk::read_file(disk, Path::new(&path)).unwrap())),
        }
    }
}

fn disk_of(files: &Files) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (path, content) in files {
        let path = Path::new(path);
        disk.create_dir(path.parent().unwrap()).unwrap();
        disk.create(path).unwrap().write_at(content, &[], 0).unwrap();
    }
    disk
}

/// A directory with three partitions that was stopped once, and then cleanly or not.
fn fill(clean: bool) -> Files {
    let memory = MemoryDisk::new();
    let broker = start_on(Arc::new(memory.clone()), &SETTINGS);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    client.create_topic("bills", 1, &[]);
    produce(&mut client, 0..1);
    broker.shutdown();
    let broker = start_on(Arc::new(memory.clone()), &SETTINGS);
    produce(&mut broker.client(), 1..2);
    match clean {
        true => broker.shutdown(),
        false => broker.kill(),
    }
    let mut files = Files::new();
    files_of(&memory, "/data", &mut files);
    files
}

/// Writes the first or the second half of each partition, two records to a batch; each value is its offset.
fn produce(client: &mut Client, halves: std::ops::Range<i64>) {
    for (topic, partition, count) in PARTITIONS {
        let half = count / 2;
        for offset in (halves.start * half)..(halves.end * half) {
            let value = format!("{topic}-{partition}-{offset}");
            assert_eq!(client.produce(topic, partition, batch(&[&value])).base_offset, offset);
        }
    }
}

fn cluster(client: &mut Client) -> (String, Vec<String>) {
    let request = MetadataRequest {
        topics: None::<Vec<MetadataRequestTopic>>,
        ..Default::default()
    };
    let response = client.call(&request, 9);
    let mut topics: Vec<String> = response
        .topics
        .iter()
        .map(|topic| topic.name.clone().unwrap().to_string())
        .collect();
    topics.retain(|topic| !topic.starts_with("__"));
    (response.cluster_id.unwrap().to_string(), topics)
}

type Case = (String, Option<Vec<u8>>);

fn cases(path: &str, content: &[u8], files: &Files) -> Vec<Case> {
    let mut cases: Vec<Case> = vec![("missing".to_owned(), None)];
    if !content.is_empty() {
        cases.push(("empty".to_owned(), Some(vec![])));
    }
    let step = (content.len() / 23).max(1);
    for place in (0..content.len()).step_by(step) {
        let mut flipped = content.to_vec();
        flipped[place] ^= 1 << (place % 8);
        cases.push((format!("byte {place} flipped"), Some(flipped)));
    }
    for length in [1, content.len() / 3, content.len() / 2, content.len().saturating_sub(1)] {
        if (1..content.len()).contains(&length) {
            cases.push((format!("cut to {length}"), Some(content[..length].to_vec())));
        }
    }
    let name = path.rsplit_once('/').unwrap().1;
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let others = files.iter().filter(|(other, theirs)| {
        let other_name = other.rsplit_once('/').unwrap().1;
        let same = other_name == name || (ending.is_some() && other_name.rsplit_once('.').map(|(_, e)| e) == ending);
        *other != path && same && *theirs != content
    });
    cases.extend(others.map(|(other, theirs)| (format!("exchanged for {other}"), Some(theirs.clone()))));
    cases
}

/// Starts on a damaged directory and returns the faults of that start.
fn judge(
    files: &Files,
    cluster_before: &(String, Vec<String>),
    path: &str,
    content: Option<&Vec<u8>>,
) -> Result<(), String> {
    let mut files = files.clone();
    match content {
        None => drop(files.remove(path)),
        Some(content) => drop(files.insert(path.to_owned(), content.clone())),
    }
    let disk = disk_of(&files);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = doctor::examine_on(&shared, Path::new("/data")).map_err(|error| format!("doctor: {error}"))?;
    let findings = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Level::Damage);
    let sees_damage = findings.count() > 0;
    let broker = match try_start_on(shared, &SETTINGS) {
        Ok(broker) => broker,
        Err(error) => {
            let error = error.to_string();
            let left = disk::read_file(&disk, Path::new(path)).ok();
            return match (error.contains("metadata.log"), sees_damage, left.as_ref() == content) {
                (true, true, true) => Ok(()),
                outcome => Err(format!("refused {outcome:?}: {error}")),
            };
        }
    };
    let mut client = broker.client();
    let cluster = cluster(&mut client);
    if cluster != *cluster_before {
        return Err(format!("the cluster is {cluster:?} now"));
    }
    let mut misses = false;
    for (topic, partition, count) in PARTITIONS {
        misses |= misses_any(&mut client, topic, partition, count)?;
    }
    broker.kill();
    match misses && !sees_damage {
        true => Err("something is missing, but the doctor sees no damage".to_owned()),
        false => Ok(()),
    }
}

/// Whether a partition does not serve all records. It must report an error, or the start must have logged the gap.
fn misses_any(client: &mut Client, topic: &str, partition: i32, count: i64) -> Result<bool, String> {
    let storage_error = ErrorCode::KafkaStorageError.code();
    let read = client.fetch(topic, partition, 0);
    if read.error_code == storage_error {
        let next = client.produce(topic, partition, batch(&["next"]));
        return match next.error_code == storage_error || next.base_offset >= count {
            true => Ok(true),
            false => Err(format!("{topic}-{partition} gives out {}", next.base_offset)),
        };
    }
    let bytes = read.records.unwrap();
    let is_damaged = milena_wire::records::Batches::new(bytes.clone()).any(|batch| match batch {
        Ok(batch) => batch.verify().is_err(),
        Err(_) => true,
    });
    let next = client.produce(topic, partition, batch(&["next"]));
    if next.error_code != 0 || next.base_offset < count {
        return Err(format!(
            "{topic}-{partition} gives out {} ({})",
            next.base_offset, next.error_code
        ));
    }
    if is_damaged {
        return Ok(true);
    }
    let read = values(&bytes);
    let expected = |offset: i64| (offset, format!("{topic}-{partition}-{offset}"));
    let wrong: Vec<_> = read.iter().filter(|record| **record != expected(record.0)).collect();
    match wrong.is_empty() {
        true => Ok((read.len() as i64) < count),
        false => Ok(true),
    }
}

fn check(clean: bool) {
    let files = fill(clean);
    let before = {
        let broker = start_on(Arc::new(disk_of(&files)), &SETTINGS);
        let before = cluster(&mut broker.client());
        broker.kill();
        before
    };
    let (mut count, mut failures) = (0, vec![]);
    for (path, content) in files.iter().filter(|(path, _)| !path.ends_with(".lock")) {
        for (what, damaged) in cases(path, content, &files) {
            count += 1;
            if let Err(problem) = judge(&files, &before, path, damaged.as_ref()) {
                failures.push(format!("{path}: {what}: {problem}"));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn no_damage_after_a_clean_stop_goes_unnoticed() {
    check(true);
}

#[test]
fn no_damage_after_a_crash_goes_unnoticed() {
    check(false);
}

#[test]
fn a_partition_that_lost_its_file_is_offline_and_the_others_serve() {
    let mut files = fill(true);
    files.remove("/data/letters-1/00000000000000000000.log").unwrap();
    let disk = disk_of(&files);
    let broker = start_on(Arc::new(disk.clone()), &SETTINGS);
    let mut client = broker.client();
    let offline = ErrorCode::KafkaStorageError.code();
    assert_eq!(client.fetch("letters", 1, 0).error_code, offline);
    assert_eq!(client.produce("letters", 1, batch(&["x"])).error_code, offline);
    let row = client.call(
        &MetadataRequest {
            topics: None,
            ..Default::default()
        },
        9,
    );
    let letters = row
        .topics
        .iter()
        .find(|topic| topic.name.as_deref() == Some("letters"))
        .unwrap();
    let shown: Vec<_> = letters
        .partitions
        .iter()
        .map(|row| row.offline_replicas.len())
        .collect();
    assert_eq!(shown, [0, 1]);
    assert_eq!(values(&client.fetch("letters", 0, 0).records.unwrap()).len(), 6);
    broker.shutdown();
    // The error stays after another stop, until the loss is accepted; then no offset is assigned twice.
    let broker = start_on(Arc::new(disk.clone()), &SETTINGS);
    assert_eq!(broker.client().fetch("letters", 1, 0).error_code, offline);
    broker.shutdown();
    let accepting = [&SETTINGS[..], &[("milena.recovery", "accept-loss")]].concat();
    let broker = start_on(Arc::new(disk.clone()), &accepting);
    assert_eq!(broker.client().produce("letters", 1, batch(&["x"])).base_offset, 4);
    broker.shutdown();
    let broker = start_on(Arc::new(disk), &SETTINGS);
    let mut client = broker.client();
    assert_eq!(values(&client.fetch("letters", 1, 0).records.unwrap()), []);
    let read = client.fetch("letters", 1, 4);
    assert_eq!(values(&read.records.unwrap()), [(4, "x".to_owned())]);
    broker.shutdown();
}

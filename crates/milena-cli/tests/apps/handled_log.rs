//! The log of handled records, in the order of handling. All processes of a group append lines to one file, which
//! survives their crashes.
//!
//! Record `n` of a partition has the value `n` and the offset `n`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// Keys per partition.
pub const KEYS: i64 = 10;

/// Partition and number of a record.
pub type RecordId = (i32, i64);

/// The record that crashes a process whose task says so.
pub const KILLER: RecordId = (2, 100);

pub fn key(partition: i32, number: i64) -> String {
    format!("{partition}/{}", number % KEYS)
}

/// The writing end of one process.
pub struct LogWriter {
    file: File,
    name: String,
}

impl LogWriter {
    pub fn open(path: &Path, name: &str) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Self {
            file,
            name: name.to_owned(),
        }
    }

    pub fn begins(&self, record: RecordId) {
        self.write("begins", record);
    }

    pub fn ends(&self, record: RecordId) {
        self.write("ends", record);
    }

    /// One write call, so that lines of processes do not mix.
    fn write(&self, word: &str, (partition, number): RecordId) {
        let line = format!("{} {word} {partition} {number}\n", self.name);
        (&self.file).write_all(line.as_bytes()).unwrap();
    }
}

#[derive(Debug, Clone)]
pub struct Line {
    pub worker: String,
    pub begins: bool,
    pub record: RecordId,
}

pub struct HandledLog {
    pub path: PathBuf,
}

impl HandledLog {
    /// All complete lines.
    pub fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Line {
                worker: words[0].to_owned(),
                begins: words[1] == "begins",
                record: (words[2].parse().unwrap(), words[3].parse().unwrap()),
            }
        };
        whole.lines().map(line).collect()
    }

    /// The number of records that a process has handled.
    pub fn count(&self, worker: &str) -> usize {
        let ended = |line: &Line| !line.begins && line.worker == worker;
        self.lines().into_iter().filter(ended).count()
    }

    /// The records that have been handled.
    pub fn handled(&self) -> BTreeSet<RecordId> {
        handled(&self.lines())
    }
}

pub fn handled(lines: &[Line]) -> BTreeSet<RecordId> {
    lines
        .iter()
        .filter(|line| !line.begins)
        .map(|line| line.record)
        .collect()
}

/// The expected lines: the records of each key in order, each once.
pub struct Expected {
    waiting: BTreeMap<String, VecDeque<i64>>,
    begun: BTreeMap<String, i64>,
}

impl Expected {
    /// All records except the finished ones.
    pub fn new(counts: &[i64], done: &BTreeSet<RecordId>) -> Self {
        let mut waiting: BTreeMap<String, VecDeque<i64>> = BTreeMap::new();
        for (partition, count) in (0..).zip(counts) {
            let numbers = (0..*count).filter(|number| !done.contains(&(partition, *number)));
            for number in numbers {
                waiting.entry(key(partition, number)).or_default().push_back(number);
            }
        }
        Self {
            waiting,
            begun: BTreeMap::new(),
        }
    }

    /// Checks that each line is the next expected one of its key.
    pub fn see(&mut self, who: &str, lines: &[Line]) {
        for line in lines {
            let (partition, number) = line.record;
            let key = key(partition, number);
            if line.begins {
                let next = self.waiting.get_mut(&key).and_then(VecDeque::pop_front);
                let before = self.begun.insert(key, number);
                assert_eq!(before, None, "{who}: {line:?} although its key is in a handler");
                assert_eq!(next, Some(number), "{who}: {line:?} is not what comes next of its key");
            } else {
                let begun = self.begun.remove(&key);
                assert_eq!(begun, Some(number), "{who}: {line:?} was not begun");
            }
        }
    }

    pub fn assert_all_came(&self, who: &str) {
        let missing: Vec<_> = self.waiting.iter().filter(|(_, numbers)| !numbers.is_empty()).collect();
        assert!(missing.is_empty(), "{who}: lost are {missing:?}");
        assert!(self.begun.is_empty(), "{who}: not ended are {:?}", self.begun);
    }
}

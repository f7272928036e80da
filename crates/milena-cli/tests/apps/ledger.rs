//! What handlers did, in the order in which they did it. It is a file to which all processes of a group append lines, which
//! no end of a process takes back.
//!
//! The record `n` of a partition has the value `n` and is at the offset `n`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// Of each partition.
pub const KEYS: i64 = 10;

/// Partition and number.
pub type Place = (i32, i64);

/// A record that ends the process of whoever handles it, if that is its task.
pub const KILLER: Place = (2, 100);

pub fn key(partition: i32, number: i64) -> String {
    format!("{partition}/{}", number % KEYS)
}

/// The hand of one process.
pub struct Pen {
    file: File,
    name: String,
}

impl Pen {
    pub fn open(path: &Path, name: &str) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Self {
            file,
            name: name.to_owned(),
        }
    }

    pub fn begins(&self, place: Place) {
        self.write("begins", place);
    }

    pub fn ends(&self, place: Place) {
        self.write("ends", place);
    }

    /// One call, so that no other line comes in between.
    fn write(&self, word: &str, (partition, number): Place) {
        let line = format!("{} {word} {partition} {number}\n", self.name);
        (&self.file).write_all(line.as_bytes()).unwrap();
    }
}

#[derive(Debug, Clone)]
pub struct Line {
    pub worker: String,
    pub begins: bool,
    pub place: Place,
}

pub struct Ledger {
    pub path: PathBuf,
}

impl Ledger {
    /// All lines that are whole.
    pub fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Line {
                worker: words[0].to_owned(),
                begins: words[1] == "begins",
                place: (words[2].parse().unwrap(), words[3].parse().unwrap()),
            }
        };
        whole.lines().map(line).collect()
    }

    /// How many records a process has handled.
    pub fn count(&self, worker: &str) -> usize {
        let ended = |line: &Line| !line.begins && line.worker == worker;
        self.lines().into_iter().filter(ended).count()
    }

    /// Which records have been handled.
    pub fn handled(&self) -> BTreeSet<Place> {
        handled(&self.lines())
    }
}

pub fn handled(lines: &[Line]) -> BTreeSet<Place> {
    lines
        .iter()
        .filter(|line| !line.begins)
        .map(|line| line.place)
        .collect()
}

/// What must still happen: of each key one record after the other, each once.
pub struct Expected {
    waiting: BTreeMap<String, VecDeque<i64>>,
    begun: BTreeMap<String, i64>,
}

impl Expected {
    /// All records but those that are done.
    pub fn new(counts: &[i64], done: &BTreeSet<Place>) -> Self {
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

    /// Each line is what must come next of its key.
    pub fn see(&mut self, who: &str, lines: &[Line]) {
        for line in lines {
            let (partition, number) = line.place;
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

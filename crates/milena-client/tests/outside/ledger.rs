//! A ledger of group members, ours and Java's: assignments and records read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use milena_client::consumer::TopicPartition;
use tokio::sync::Notify;

use crate::patience::PATIENCE;

#[derive(Default)]
pub struct Ledger {
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Debug, Default)]
pub struct Book {
    pub owned: BTreeMap<String, BTreeSet<TopicPartition>>,
    /// The members that have read each record.
    readers: BTreeMap<TopicPartition, BTreeMap<i64, Vec<String>>>,
    /// The last offset that each member has read of a partition.
    last: BTreeMap<(String, TopicPartition), i64>,
    changes: BTreeMap<String, usize>,
    /// Members that are leaving.
    leaving: BTreeSet<String>,
    failures: Vec<String>,
}

impl Book {
    pub fn count(&self, partition: &TopicPartition) -> usize {
        self.readers.get(partition).map_or(0, BTreeMap::len)
    }
}

impl Ledger {
    /// A failed test leaves members behind that still report.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event in the format of `Peer.java`.
    pub fn hear(&self, member: &str, event: &str) {
        let mut words = event.split_whitespace();
        let what = words.next().unwrap_or_default();
        match what {
            "assigned" | "revoked" | "lost" => {
                let partitions: Vec<TopicPartition> = words.map(partition).collect();
                self.change(member, what, &partitions);
            }
            "read" => {
                let numbers: Vec<i64> = words.clone().skip(1).map(|word| word.parse().unwrap()).collect();
                self.read(member, &partition(words.next().unwrap()), numbers[0]..=numbers[1]);
            }
            _ => self.fail(member, event),
        }
    }

    pub fn change(&self, member: &str, what: &str, partitions: &[TopicPartition]) {
        let mut book = self.book();
        *book.changes.entry(member.to_owned()).or_default() += partitions.len();
        let owned = book.owned.entry(member.to_owned()).or_default();
        for partition in partitions {
            let is_new = match what {
                "assigned" => owned.insert(partition.clone()),
                _ => owned.remove(partition),
            };
            if !is_new {
                book.failures.push(format!("{member}: {partition} {what} in vain"));
                break;
            }
        }
        if what == "lost" && !book.leaving.contains(member) {
            book.failures.push(format!("{member} lost {partitions:?}"));
        }
        drop(book);
        self.changed.notify_waiters();
    }

    pub fn read(&self, member: &str, partition: &TopicPartition, offsets: impl IntoIterator<Item = i64>) {
        let mut guard = self.book();
        let book = &mut *guard;
        let is_owner = book.owned.get(member).is_some_and(|owned| owned.contains(partition));
        if !is_owner {
            book.failures
                .push(format!("{member} reads {partition}, which it does not own"));
        }
        let last = book.last.entry((member.to_owned(), partition.clone())).or_insert(-1);
        let readers = book.readers.entry(partition.clone()).or_default();
        for offset in offsets {
            if offset <= *last {
                book.failures
                    .push(format!("{member} reads {offset} of {partition} after {last}"));
            }
            *last = offset;
            readers.entry(offset).or_default().push(member.to_owned());
        }
        drop(guard);
        self.changed.notify_waiters();
    }

    pub fn fail(&self, member: &str, why: &str) {
        self.book().failures.push(format!("{member}: {why}"));
        self.changed.notify_waiters();
    }

    /// Marks a member as leaving. During a rebalance it may lose partitions, ours as well as Java's.
    pub fn let_go(&self, member: &str) {
        self.book().leaving.insert(member.to_owned());
    }

    /// Removes a dead member, which reports nothing.
    pub fn bury(&self, member: &str) {
        self.book().owned.remove(member);
    }

    /// Waits until the condition holds; fails at once when a member does.
    pub async fn wait(&self, what: &str, done: impl Fn(&Book) -> bool) {
        let deadline = tokio::time::Instant::from_std(Instant::now() + PATIENCE);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let book = self.book();
                assert!(
                    book.failures.is_empty(),
                    "{what}: {:?}; {:?}",
                    book.failures,
                    book.owned
                );
                if done(&book) {
                    return;
                }
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                let book = self.book();
                let read: Vec<String> = book.readers.iter().map(|(place, read)| describe(place, read)).collect();
                panic!("in vain: {what}; owned {:?}, read {read:?}", book.owned);
            }
        }
    }

    /// Waits until exactly these members have partitions, with these counts, and together all of them.
    pub async fn settle(&self, what: &str, shares: &[(&str, usize)]) {
        let total = shares.iter().map(|(_, count)| count).sum::<usize>();
        self.wait(what, |book| {
            let owned = |member: &str| book.owned.get(member).map_or(0, BTreeSet::len);
            let all: BTreeSet<&TopicPartition> = book.owned.values().flatten().collect();
            let owners = book.owned.values().filter(|owned| !owned.is_empty()).count();
            all.len() == total && owners == shares.len() && shares.iter().all(|(member, count)| owned(member) == *count)
        })
        .await;
    }

    /// Waits until all records from 0 to `end` of all partitions of a topic were read.
    pub async fn wait_for_all(&self, topic: &str, partitions: usize, end: i64) {
        self.wait("all is read", |book| {
            (0..partitions).all(|partition| {
                let partition = TopicPartition::new(topic, i32::try_from(partition).unwrap());
                let read = book.readers.get(&partition);
                read.is_some_and(|read| read.len() >= usize::try_from(end).unwrap())
            })
        })
        .await;
    }

    /// The number of records of a partition that were read.
    pub fn count(&self, partition: &TopicPartition) -> usize {
        self.book().count(partition)
    }

    /// The number of partitions assigned to or revoked from a member.
    pub fn changes(&self, member: &str) -> usize {
        self.book().changes.get(member).copied().unwrap_or(0)
    }

    /// Checks that no record was read twice, unless one of its readers died before its commit.
    pub fn assert_none_twice(&self, dead: &[&str]) {
        let book = self.book();
        for (partition, read) in &book.readers {
            for (offset, readers) in read {
                let alive: Vec<&String> = readers.iter().filter(|name| !dead.contains(&name.as_str())).collect();
                assert!(alive.len() <= 1, "{partition} @ {offset} was read by {alive:?}");
            }
        }
    }
}

/// The offsets that were read, as runs with the last reader of each.
fn describe(partition: &TopicPartition, read: &BTreeMap<i64, Vec<String>>) -> String {
    let mut runs: Vec<(i64, i64, &[String])> = vec![];
    for (offset, readers) in read {
        match runs.last_mut() {
            Some((_, last, by)) if *last + 1 == *offset => (*last, *by) = (*offset, readers),
            _ => runs.push((*offset, *offset, readers)),
        }
    }
    format!("{partition}: {runs:?}")
}

fn partition(text: &str) -> TopicPartition {
    let (topic, partition) = text.rsplit_once('-').unwrap();
    TopicPartition::new(topic, partition.parse().unwrap())
}

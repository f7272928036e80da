//! Check of committed offsets: a fetch returns the last commit.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::TopicPartition;

use crate::clients::{Call, CallId};

/// Every commit has a unique value, so a fetched value tells which commit it came from. The values that may be fetched
/// follow from when commits were sent, when the last copy of each reached the broker, and which are known to have taken
/// topic_partition.
#[derive(Debug, Default)]
pub(crate) struct CommittedOffsets {
    partitions: BTreeMap<(ByteString, TopicPartition), Vec<Write>>,
    last_value: i64,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    value: i64,
    /// Distinguishes commits with the same value: a synchronous commit is retried.
    call: CallId,
    sent_at: i64,
    /// It cannot take topic_partition after this.
    last_chance: i64,
    /// The time of the response that it took topic_partition.
    known_at: Option<i64>,
    doubled: bool,
}

/// The result of a fetch without a commit.
pub(crate) const NOTHING: i64 = -1;

impl Write {
    const NOTHING: Self = Self {
        value: NOTHING,
        call: 0,
        sent_at: i64::MIN,
        last_chance: i64::MIN,
        known_at: Some(i64::MIN),
        doubled: false,
    };
}

impl CommittedOffsets {
    /// A value that was never committed before.
    pub(crate) fn next_value(&mut self) -> i64 {
        self.last_value += 1;
        self.last_value
    }

    /// Notes that a commit was sent. In a transaction, it may take topic_partition whenever that ends.
    pub(crate) fn sent(&mut self, group: &ByteString, topic_partition: &TopicPartition, value: i64, call: &Call) {
        if let Some(last_chance) = call.last_arrival {
            let writes = self.writes(group, topic_partition);
            writes.push(Write {
                value,
                call: call.id,
                sent_at: call.sent_at,
                last_chance,
                known_at: None,
                doubled: call.doubled,
            });
        }
    }

    pub(crate) fn succeeded(&mut self, now: i64, group: &ByteString, topic_partition: &TopicPartition, value: i64) {
        for write in self
            .writes(group, topic_partition)
            .iter_mut()
            .filter(|write| write.value == value)
        {
            write.known_at.get_or_insert(now);
        }
    }

    /// The broker refused it. Of two copies, the other may still have succeeded.
    pub(crate) fn refused(&mut self, group: &ByteString, topic_partition: &TopicPartition, value: i64, call: CallId) {
        let is_other = |write: &Write| write.value != value || write.call != call;
        self.writes(group, topic_partition)
            .retain(|write| is_other(write) || write.doubled || write.known_at.is_some());
    }

    /// Checks a fetch that was sent at `asked_at` and returns `value` now.
    pub(crate) fn read(
        &mut self,
        (asked_at, now): (i64, i64),
        group: &ByteString,
        topic_partition: &TopicPartition,
        value: i64,
    ) -> Result<(), String> {
        let writes = self.writes(group, topic_partition);
        let newer_than = |write: &Write| {
            let known_before = |other: &&Write| other.known_at.is_some_and(|known_at| known_at <= asked_at);
            let mut newer = writes.iter().filter(|other| other.sent_at > write.last_chance);
            newer.find(known_before).copied()
        };
        let mut found = writes.iter().filter(|write| write.value == value).peekable();
        if found.peek().is_none() {
            return Err(format!(
                "{topic_partition} of {group} has offset {value}, which no client committed successfully"
            ));
        }
        // Any of those with this value may be the fetched one.
        let newer: Option<Vec<Write>> = found.map(newer_than).collect();
        if let Some(newer) = newer.as_ref().and_then(|newer| newer.first()) {
            return Err(format!(
                "{topic_partition} of {group} has offset {value}, although {} was committed later (sent at {}, known at {:?})",
                newer.value, newer.sent_at, newer.known_at
            ));
        }
        self.succeeded(now, group, topic_partition, value);
        Ok(())
    }

    fn writes(&mut self, group: &ByteString, topic_partition: &TopicPartition) -> &mut Vec<Write> {
        let topic_partition = (group.clone(), topic_partition.clone());
        self.partitions
            .entry(topic_partition)
            .or_insert_with(|| vec![Write::NOTHING])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sent_at: i64) -> Call {
        Call {
            id: 0,
            sent_at,
            last_arrival: Some(sent_at + 5),
            doubled: false,
        }
    }

    #[test]
    fn an_acknowledged_commit_may_not_be_lost_and_an_unknown_one_may() {
        let mut offsets = CommittedOffsets::default();
        let group = ByteString::from_static("g");
        let topic_partition = TopicPartition {
            topic: "t".into(),
            partition: 0,
        };
        offsets.sent(&group, &topic_partition, 1, &call(100));
        assert_eq!(offsets.read((101, 102), &group, &topic_partition, NOTHING), Ok(()));
        offsets.succeeded(110, &group, &topic_partition, 1);
        assert!(offsets.read((111, 112), &group, &topic_partition, NOTHING).is_err());
        offsets.sent(&group, &topic_partition, 2, &call(200));
        assert_eq!(offsets.read((300, 301), &group, &topic_partition, 1), Ok(()));
        assert_eq!(offsets.read((300, 301), &group, &topic_partition, 2), Ok(()));
        assert!(offsets.read((302, 303), &group, &topic_partition, 1).is_err());
        assert!(offsets.read((302, 303), &group, &topic_partition, 3).is_err());
    }
}

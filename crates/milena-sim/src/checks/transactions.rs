//! Check of transactions: each is visible as a whole or not at all, and as its producer was told.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::TopicPartition;

use crate::clients::ClientId;

#[derive(Debug, Default)]
pub(crate) struct Transactions {
    all: BTreeMap<u64, Transaction>,
    last_value: u64,
}

#[derive(Debug)]
struct Transaction {
    client: ClientId,
    outcome: Outcome,
    values: BTreeSet<u64>,
    /// The offset that was committed in it.
    offset: Option<i64>,
}

/// The producer's knowledge about the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has not requested a commit, so there is none.
    NotCommitted,
    /// It has requested a commit and got no response.
    Unknown,
    Committed,
}

/// The records of a partition that a reader with `read_committed` sees.
#[derive(Debug)]
pub(crate) struct PartitionRead {
    pub(crate) log: String,
    pub(crate) committed: Vec<u64>,
    /// All records, also those hidden from such readers.
    pub(crate) written: Vec<u64>,
    /// The offset at which readers have to stop, if they do.
    pub(crate) unstable_since: Option<i64>,
}

impl Transactions {
    pub(crate) fn begin(&mut self, client: ClientId) -> u64 {
        self.last_value += 1;
        let transaction = Transaction {
            client,
            outcome: Outcome::NotCommitted,
            values: BTreeSet::new(),
            offset: None,
        };
        self.all.insert(self.last_value, transaction);
        self.last_value
    }

    /// A unique value for a record of this transaction.
    pub(crate) fn next_value(&mut self, transaction: u64) -> u64 {
        self.last_value += 1;
        if let Some(transaction) = self.all.get_mut(&transaction) {
            transaction.values.insert(self.last_value);
        }
        self.last_value
    }

    pub(crate) fn set_offset(&mut self, transaction: u64, offset: i64) {
        if let Some(transaction) = self.all.get_mut(&transaction) {
            transaction.offset = Some(offset);
        }
    }

    pub(crate) fn set_outcome(&mut self, transaction: u64, outcome: Outcome) {
        if let Some(transaction) = self.all.get_mut(&transaction) {
            transaction.outcome = outcome;
        }
    }

    /// The final check: readers see exactly what producers were told. `offsets` has the committed offset of each
    /// client.
    pub(crate) fn check(
        &self,
        partitions: &[PartitionRead],
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for PartitionRead {
            log,
            committed,
            unstable_since,
            ..
        } in partitions
        {
            if let Some(offset) = unstable_since {
                return Err(format!(
                    "readers of {log} are stuck at {offset}: a transaction there never ended"
                ));
            }
            for value in committed {
                if !seen.insert(*value) {
                    return Err(format!("value {value} is twice in {log}"));
                }
            }
            self.check_order(log, committed)?;
        }
        let mut last_offsets: BTreeMap<ClientId, i64> = BTreeMap::new();
        for (id, transaction) in &self.all {
            let found = transaction.values.intersection(&seen).count();
            let is_whole = found == transaction.values.len();
            let fits = match transaction.outcome {
                Outcome::NotCommitted => found == 0,
                Outcome::Unknown => found == 0 || is_whole,
                Outcome::Committed => is_whole,
            };
            if !fits {
                return Err(format!(
                    "transaction {id} shows {found} of its records: {transaction:?}"
                ));
            }
            if let Some(offset) = transaction.offset.filter(|_| is_whole) {
                last_offsets.insert(transaction.client, offset);
            }
        }
        for (client, offset) in last_offsets {
            let topic_partition = offset_partition(client);
            if offsets.get(&topic_partition) != Some(&offset) {
                let found = offsets.get(&topic_partition);
                return Err(format!(
                    "client {client} committed offset {offset} in a transaction, but {found:?} is there"
                ));
            }
        }
        Ok(())
    }

    /// The records of one transaction are in the order in which they were sent.
    fn check_order(&self, log: &str, committed: &[u64]) -> Result<(), String> {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for value in committed {
            let Some((id, _)) = self
                .all
                .iter()
                .find(|(_, transaction)| transaction.values.contains(value))
            else {
                return Err(format!("value {value} in {log} belongs to no transaction"));
            };
            if last.insert(*id, *value).is_some_and(|last| last > *value) {
                return Err(format!("the records of transaction {id} are out of order in {log}"));
            }
        }
        Ok(())
    }
}

/// The partition in which a producer commits offsets: each has one of its own.
pub(crate) fn offset_partition(client: ClientId) -> TopicPartition {
    TopicPartition {
        topic: "input".into(),
        partition: client as i32,
    }
}

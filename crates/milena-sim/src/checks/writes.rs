//! Check of writers: no record is duplicated or out of order, no acknowledged record is missing, and each copied input
//! has its effect once.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::TopicPartition;

use super::PartitionRead;
use crate::clients::ClientId;

#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// Records by value: each is given to a sender once.
    all: BTreeMap<u64, Write>,
    /// The inputs that are copied.
    inputs: BTreeMap<i32, Input>,
    /// The pending operations of clients.
    waiting: BTreeMap<ClientId, &'static str>,
    is_calm: bool,
}

#[derive(Debug)]
struct Write {
    /// The process, and so the sender, that wrote it.
    process: u64,
    /// The input that it is a copy of, and the number of the record there.
    copied: Option<(i32, i64)>,
    reported: ReportedResult,
}

/// The result that the application got for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedResult {
    /// None, or that it may be written.
    Nothing,
    Acked,
    NotWritten,
}

#[derive(Debug, Default)]
struct Input {
    /// The offset up to which commits were reported as successful.
    copied_to: i64,
    /// Whether one was after the faults had stopped, and whether there is a process that should have done so.
    copied_calmly: bool,
    has_process: bool,
    producer: Option<(i64, i16)>,
}

impl Writes {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn faults_stop(&mut self) {
        self.is_calm = true;
    }

    /// A record for a sender: its value is greater than all before.
    pub(crate) fn next_value(&mut self, process: u64, copied: Option<(i32, i64)>) -> u64 {
        let value = self.all.len() as u64;
        let reported = ReportedResult::Nothing;
        self.all.insert(
            value,
            Write {
                process,
                copied,
                reported,
            },
        );
        value
    }

    pub(crate) fn report(&mut self, values: &[u64], reported: ReportedResult) {
        for value in values {
            if let Some(write) = self.all.get_mut(value) {
                write.reported = reported;
            }
        }
    }

    /// A transaction that copied an input up to here was committed.
    pub(crate) fn copied(&mut self, input: i32, to: i64) {
        let is_calm = self.is_calm;
        let input = self.inputs.entry(input).or_default();
        input.copied_to = input.copied_to.max(to);
        input.copied_calmly |= is_calm;
    }

    /// Notes that there is a process that copies this input.
    pub(crate) fn set_process(&mut self, input: i32) {
        self.inputs.entry(input).or_default().has_process = true;
    }

    /// The current copier of this input, by producer id and epoch.
    pub(crate) fn set_producer(&mut self, input: i32, producer: (i64, i16)) {
        self.inputs.entry(input).or_default().producer = Some(producer);
    }

    pub(crate) fn producer(&self, input: i32) -> Option<(i64, i16)> {
        self.inputs.get(&input)?.producer
    }

    /// The operation that a client waits for; `None` if there is none.
    pub(crate) fn set_waiting(&mut self, client: ClientId, what: Option<&'static str>) {
        match what {
            Some(what) => self.waiting.insert(client, what),
            None => self.waiting.remove(&client),
        };
    }

    /// The final check. `offsets` has the committed offset of each input.
    pub(crate) fn check(
        &self,
        partitions: &[PartitionRead],
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), String> {
        if let Some((client, what)) = self.waiting.first_key_value() {
            return Err(format!("client {client} still waits for {what}"));
        }
        let mut seen = BTreeSet::new();
        let mut copies: BTreeMap<i32, BTreeSet<i64>> = BTreeMap::new();
        for partition in partitions {
            for value in &partition.committed {
                let Some(write) = self.all.get(value) else {
                    return Err(format!(
                        "value {value} in {} was not written by any client",
                        partition.log
                    ));
                };
                let is_new = match write.copied {
                    Some((input, record)) => copies.entry(input).or_default().insert(record),
                    None => seen.insert(*value),
                };
                if !is_new {
                    return Err(format!("value {value} is twice in {}: {write:?}", partition.log));
                }
            }
        }
        for partition in partitions {
            self.check_partition(partition)?;
        }
        let is_lost = |(value, write): &(&u64, &Write)| {
            write.reported == ReportedResult::Acked && write.copied.is_none() && !seen.contains(value)
        };
        if let Some((value, write)) = self.all.iter().find(is_lost) {
            return Err(format!("value {value} was acknowledged and is not there: {write:?}"));
        }
        self.check_inputs(&copies, offsets)
    }

    fn check_partition(&self, partition: &PartitionRead) -> Result<(), String> {
        let log = &partition.log;
        if let Some(offset) = partition.unstable_since {
            return Err(format!(
                "readers of {log} are stuck at {offset}: a transaction there never ended"
            ));
        }
        let was_denied = |value: &&u64| {
            self.all
                .get(value)
                .is_some_and(|write| write.reported == ReportedResult::NotWritten)
        };
        if let Some(value) = partition.written.iter().find(was_denied) {
            return Err(format!("value {value} is in {log}, and was reported as not written"));
        }
        // The records of one process and of one input are in the order in which the sender got them.
        let (mut by_process, mut by_input) = (BTreeMap::new(), BTreeMap::new());
        for value in &partition.committed {
            let Some(write) = self.all.get(value) else { continue };
            let is_behind = match write.copied {
                Some((input, record)) => by_input.insert(input, record).is_some_and(|last| last > record),
                None => by_process
                    .insert(write.process, *value)
                    .is_some_and(|last| last > *value),
            };
            if is_behind {
                return Err(format!("value {value} is out of order in {log}: {write:?}"));
            }
        }
        Ok(())
    }

    /// Each input was copied up to its offset, once.
    fn check_inputs(
        &self,
        copies: &BTreeMap<i32, BTreeSet<i64>>,
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), String> {
        for (number, input) in &self.inputs {
            let offset = offsets.get(&input_partition(*number)).copied().unwrap_or(0).max(0);
            let copied = copies.get(number).cloned().unwrap_or_default();
            if !copied.iter().copied().eq(0..offset) {
                return Err(format!(
                    "input {number} is read up to {offset}, but these of its records are copied: {copied:?}"
                ));
            }
            if input.copied_to > offset {
                let reported = input.copied_to;
                return Err(format!(
                    "input {number} was copied up to {reported}, but its offset is {offset}"
                ));
            }
            if input.has_process && !input.copied_calmly {
                return Err(format!("input {number} is not copied any more"));
            }
        }
        Ok(())
    }
}

/// The partition in which the offset of an input is committed.
pub(crate) fn input_partition(input: i32) -> TopicPartition {
    TopicPartition::new("input", input)
}

//! An application that copies an input in transactions: each record has its effect once, whatever happens.

use bytestring::ByteString;
use milena_machines::{
    member::{GroupMetadata, OffsetAndMetadata},
    produce::{Operation, OperationId, Remedy, TransactionError},
};

use super::{Copying, Process, WriterSettings};
use crate::{
    Mutation,
    checks::input_partition,
    clients::{Io, PRODUCERS_GROUP},
};

/// The key of copiers with the same input in the checks.
pub(super) const COPIERS: ByteString = ByteString::from_static("copiers");

#[derive(Debug)]
pub(super) struct Copier {
    copying: Copying,
    state: State,
    /// The next record to copy.
    position: i64,
    /// The position once the transaction is committed.
    next: i64,
    transactions: u64,
    /// The deadline of an operation; after it the operation is called again.
    patience: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Running(Operation, OperationId),
    /// The wait for this timed out.
    Impatient(Operation),
    /// The offset is to be fetched, or is being fetched.
    Lost,
    Fetching,
    Idle,
    /// The number of batches still to be written.
    Writing(u64),
    /// All is written; the offsets may still have to be sent.
    Written {
        has_offsets: bool,
    },
}

impl Copier {
    pub(super) fn new(copying: Copying) -> Self {
        Self {
            copying,
            state: State::New,
            position: 0,
            next: 0,
            transactions: 0,
            patience: i64::MAX,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Does the next step. Returns whether there is something new to send.
    pub(super) fn act(&mut self, process: &mut Process, settings: &WriterSettings, io: &mut Io<'_>) -> bool {
        let now = io.now();
        let is_idle = self.state == State::Idle;
        process.due = io.soon(if is_idle { 1_500 } else { 300 });
        let is_v2 = self.transactions >= self.copying.v2_from;
        match self.state {
            State::New => {
                process.sender.handle_features(if is_v2 { 2 } else { 1 });
                let started = process.sender.init_transactions(now);
                self.started(io, Operation::Init, started);
            }
            State::Running(operation, id) => {
                if now < self.patience {
                    process.due = self.patience;
                    return false;
                }
                process.sender.stop_waiting(id);
                self.state = State::Impatient(operation);
                return false;
            }
            State::Impatient(Operation::SendOffsets) => self.send_offsets(process, io),
            State::Impatient(operation) => {
                let again = match operation {
                    Operation::Init => process.sender.init_transactions(now),
                    Operation::Abort => process.sender.abort(now),
                    _ => process.sender.commit(now),
                };
                self.started(io, operation, again);
            }
            State::Lost => {
                self.state = State::Fetching;
                process.fetch_offset(settings, io, self.copying.input);
            }
            // The response wakes it, or the lack of one.
            State::Fetching => {
                process.due = i64::MAX;
                return false;
            }
            State::Idle => {
                if now >= settings.stops_at {
                    return false;
                }
                process.sender.handle_features(if is_v2 { 2 } else { 1 });
                self.transactions += 1;
                if let Err(error) = process.sender.begin() {
                    io.checks.fail(format!("client {} cannot begin: {error}", io.id));
                }
                self.next = self.position;
                self.state = State::Writing(io.random.below(5));
            }
            State::Writing(0) => self.state = State::Written { has_offsets: false },
            State::Writing(left) => {
                self.write(process, io);
                self.state = State::Writing(left - 1);
            }
            State::Written { has_offsets } => self.end(process, settings, io, has_offsets),
        }
        true
    }

    /// Copies some records into a partition that follows from them.
    fn write(&mut self, process: &mut Process, io: &mut Io<'_>) {
        if process.sender.check_send().is_err() {
            return;
        }
        let Some(slot) = process.some_slot(io) else { return };
        let count = 1 + io.random.below(3) as i64;
        let records = self.next..self.next + count;
        let values = records.map(|record| {
            let copied = Some((self.copying.input, record));
            io.checks.writes.next_value(process.number, copied)
        });
        let values = values.collect();
        self.next += count;
        process.push(io, slot, values);
    }

    fn end(&mut self, process: &mut Process, settings: &WriterSettings, io: &mut Io<'_>, has_offsets: bool) {
        let now = io.now();
        if process.sender.check_send().is_err() || (!has_offsets && io.random.below(6) == 0) {
            let started = process.sender.abort(now);
            self.started(io, Operation::Abort, started);
        } else if has_offsets {
            if settings.mutation == Some(Mutation::EndBeforeWritten) {
                process.believe_all(now);
                process.take_events(io);
            }
            let started = process.sender.commit(now);
            self.started(io, Operation::Commit, started);
        } else {
            self.send_offsets(process, io);
        }
    }

    fn send_offsets(&mut self, process: &mut Process, io: &mut Io<'_>) {
        let group = GroupMetadata {
            group_id: PRODUCERS_GROUP.into(),
            generation: -1,
            member_id: "".into(),
            instance_id: None,
        };
        let offset = OffsetAndMetadata {
            offset: self.next,
            leader_epoch: None,
            metadata: "".into(),
        };
        let offsets = vec![(input_partition(self.copying.input), offset)];
        let started = process.sender.send_offsets(io.now(), group, offsets);
        self.started(io, Operation::SendOffsets, started);
    }

    fn started(&mut self, io: &mut Io<'_>, operation: Operation, started: Result<OperationId, TransactionError>) {
        match started {
            Ok(id) => {
                self.state = State::Running(operation, id);
                self.patience = io.now() + 500 + io.random.below(5_000) as i64;
            }
            Err(error) => self.failed(io, operation, &error),
        }
    }

    /// An operation has ended. It is a mistake to take a commit for an abort.
    pub(super) fn done(
        &mut self,
        io: &mut Io<'_>,
        id: OperationId,
        result: Result<(), TransactionError>,
        takes_for_aborted: bool,
    ) {
        let State::Running(operation, running) = self.state else {
            return;
        };
        if running != id {
            return;
        }
        let input = self.copying.input;
        match (operation, result) {
            (Operation::Init, Ok(())) => {
                io.checks.writes.set_process(input);
                self.state = State::Lost;
            }
            (Operation::SendOffsets, Ok(())) => self.state = State::Written { has_offsets: true },
            (Operation::Commit, Ok(())) if takes_for_aborted => self.state = State::Idle,
            (Operation::Commit, Ok(())) => {
                io.checks.writes.copied(input, self.next);
                self.position = self.next;
                self.state = State::Idle;
            }
            (Operation::Abort, Ok(())) => self.state = State::Idle,
            (operation, Err(error)) => self.failed(io, operation, &error),
        }
    }

    /// Reacts as the error says. After a fatal one the process is started anew.
    fn failed(&mut self, io: &mut Io<'_>, operation: Operation, error: &TransactionError) {
        io.note(|| format!("cannot {operation}: {error}"));
        match error.remedy() {
            Remedy::Abort => self.state = State::Written { has_offsets: false },
            Remedy::GiveUp => {}
            remedy => io
                .checks
                .fail(format!("client {} cannot {operation}, {remedy:?}: {error}", io.id)),
        }
    }

    /// The offset of the input is known, or has to be fetched again.
    pub(super) fn fetched(&mut self, io: &mut Io<'_>, offset: Option<i64>) {
        io.note(|| format!("reads on from {offset:?}"));
        match offset {
            Some(offset) => {
                self.position = offset.max(0);
                self.state = State::Idle;
            }
            None => self.state = State::Lost,
        }
    }
}

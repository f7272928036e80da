//! The crash guard: finds records that kill the process of their handler.
//!
//! Such a record leaves no trace, and the next owner of the partition begins where the last one did: at the last commit. So
//! each owner announces its start in the metadata of a commit at that offset, and withdraws it when it gets past its
//! records or gives the partition back. Announcements that are left there belong to owners that crashed.
//!
//! | crashes at this offset | mode of the next owner | meaning |
//! |---|---|---|
//! | none | `New`, then `Announced` | announces its start before it hands out the first record; no limits after that |
//! | some | `Watching` | announces up to which offset it hands out records, before it does |
//! | the limit less one, or more | `Isolating` | hands out one record at a time and announces it before |
//! | the limit, the last one in isolation | `Isolating` | the record that the last one had is quarantined |
//!
//! The record that killed them is one of those that were handed out. A watching owner announces which these can be, so an
//! isolating owner has few to isolate. Isolation ends when the partition is past them, or has done all its records. Of all
//! partitions of an application one at a time has an isolated record in a handler: if the process crashes then, it was that
//! record.
//!
//! An announcement counts when its commit has succeeded. A failed commit may have been accepted, so the state of the group
//! is unknown then and announced again.

use super::{Assignment, Delivery, SchedulerConfig, ids::PartitionIndex};

/// How many offsets ahead a watching owner announces: one commit for so many records. As many are isolated if it crashes
/// too.
const WINDOW: i64 = 256;
/// Metadata of a commit can be written by any client. A higher count means the same as this.
const COUNT_MAX: u32 = 1_000;

/// The part of a commit that tells of owners which began at its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrashCounters {
    /// The number of owners that began, and neither got past their records nor gave the partition back.
    pub count: u32,
    /// They have handed out nothing from this offset on, if that is known.
    pub reach: Option<i64>,
    /// The last of them has handed out the record at the offset of the commit, in isolation.
    pub alone: bool,
}

/// The crash guard of all partitions.
#[derive(Debug)]
pub(crate) struct CrashGuard {
    limit: Option<u32>,
    /// The partition that may hand out an isolated record.
    isolated: Option<PartitionIndex>,
}

impl CrashGuard {
    pub(crate) fn new(config: &SchedulerConfig) -> Self {
        Self {
            // At most once nothing is handled twice. Transactions do not count crashes.
            limit: config.crash_limit.filter(|_| config.delivery == Delivery::AtLeastOnce),
            isolated: None,
        }
    }

    /// The guard of a new partition. Earlier owners have done what lies below `done`, and can have had `records_max` records
    /// above that in handlers.
    pub(crate) fn guard(
        &self,
        assignment: &Assignment,
        found: CrashCounters,
        done: Option<i64>,
        records_max: u64,
    ) -> PartitionGuard {
        let Some(limit) = self.limit else {
            return PartitionGuard::off();
        };
        let last = done.map_or(assignment.position, |done| done.max(assignment.position));
        let end = last.saturating_add(i64::try_from(records_max).unwrap_or(i64::MAX));
        PartitionGuard::new(limit, found, assignment.position, end)
    }

    /// Gives the turn to a partition, if no other has it. Returns whether it has the turn now.
    pub(crate) fn take_turn(&mut self, partition: PartitionIndex, is_wanted: bool) -> bool {
        if is_wanted && self.isolated.is_none() {
            self.isolated = Some(partition);
        }
        self.isolated == Some(partition)
    }

    /// Ends the turn of a partition; `false` if it did not have it.
    pub(crate) fn leave_turn(&mut self, partition: PartitionIndex) -> bool {
        let had_turn = self.isolated == Some(partition);
        if had_turn {
            self.isolated = None;
        }
        had_turn
    }

    pub(crate) fn is_turn_taken(&self) -> bool {
        self.isolated.is_some()
    }
}

/// The crash guard of one partition: which records may be handed out, and what must be announced before.
#[derive(Debug)]
pub(crate) struct PartitionGuard {
    mode: Mode,
    found: CrashCounters,
    /// The offset of the commit that had them.
    position: i64,
    /// The counters that the group should have.
    wanted: CrashCounters,
    /// The counters that the group has; `None` if that is unknown: a commit that changes them is in flight, or has failed.
    announced: Option<CrashCounters>,
    /// Crashed owners have handed out nothing from this offset on.
    end: i64,
    quarantined: Option<i64>,
    /// Isolating: the next record may be handed out.
    is_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing is counted, or not any more.
    Off,
    /// No owner crashed here, and no record has arrived.
    New,
    /// As `New`; the commit that announces the start is in flight.
    Announcing,
    Announced,
    Watching,
    Isolating,
}

/// The offsets of a partition that decide about its guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    /// The lowest unfinished offset.
    pub(crate) frontier: i64,
    /// The number of unfinished records.
    pub(crate) pending: u64,
}

impl PartitionGuard {
    /// A guard that counts nothing.
    pub(crate) fn off() -> Self {
        Self {
            mode: Mode::Off,
            found: CrashCounters::default(),
            position: 0,
            wanted: CrashCounters::default(),
            announced: Some(CrashCounters::default()),
            end: 0,
            quarantined: None,
            is_open: false,
        }
    }

    /// The guard of an owner that begins at `position`. Owners that announced no reach can have handed out offsets below
    /// `end`.
    fn new(limit: u32, mut found: CrashCounters, position: i64, end: i64) -> Self {
        found.count = found.count.min(COUNT_MAX);
        Self {
            mode: match found.count {
                count if count + 1 >= limit => Mode::Isolating,
                0 => Mode::New,
                _ => Mode::Watching,
            },
            found,
            position,
            wanted: found,
            announced: Some(found),
            end: found.reach.unwrap_or(end),
            quarantined: (found.alone && found.count >= limit).then_some(position),
            is_open: false,
        }
    }

    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.mode == Mode::New
    }

    #[inline]
    pub(crate) fn is_isolating(&self) -> bool {
        self.mode == Mode::Isolating
    }

    /// Whether records are admitted one by one, each when the guard lets it.
    #[inline]
    pub(crate) fn is_admitting(&self) -> bool {
        matches!(self.mode, Mode::Watching | Mode::Isolating)
    }

    /// Whether no queued record may be handed out.
    pub(crate) fn blocks(&self) -> bool {
        match self.mode {
            Mode::New | Mode::Announcing => true,
            Mode::Isolating => !self.is_open,
            Mode::Off | Mode::Announced | Mode::Watching => false,
        }
    }

    /// The number of owners that crashed here.
    pub(crate) fn crashes(&self) -> u32 {
        self.found.count
    }

    pub(crate) fn is_quarantined(&self, offset: i64) -> bool {
        self.quarantined == Some(offset)
    }

    /// Lets the quarantined record be handed out again.
    pub(crate) fn end_quarantine(&mut self) {
        self.quarantined = None;
    }

    /// Whether the group should have other counters.
    pub(crate) fn is_dirty(&self) -> bool {
        self.announced != Some(self.wanted)
    }

    /// The counters for a commit that is sent now.
    pub(crate) fn commit(&mut self, reached: Reached) -> CrashCounters {
        let is_over = match self.mode {
            Mode::Announced => reached.frontier > self.position,
            Mode::Watching => self.is_past(reached),
            Mode::Off | Mode::New | Mode::Announcing | Mode::Isolating => false,
        };
        if is_over {
            self.wanted = CrashCounters::default();
        }
        // While the commit is in flight, it is unknown which of both the group has.
        if self.is_dirty() {
            self.announced = None;
        }
        self.wanted
    }

    /// Announces the start: the first record has arrived.
    pub(crate) fn begin(&mut self, frontier: i64) {
        self.mode = Mode::Announcing;
        self.position = frontier;
        self.wanted = self.begun();
    }

    /// Whether a watching owner may hand out the record at `offset`; if not, it has something to announce.
    pub(crate) fn admits(&mut self, offset: i64, reached: Reached) -> bool {
        let covers =
            |told: CrashCounters| told.count > self.found.count && told.reach.is_some_and(|reach| offset < reach);
        if self.announced.is_some_and(covers) {
            return true;
        }
        self.wanted = self.begun_up_to(offset.saturating_add(WINDOW));
        if self.is_past(reached) {
            self.wanted = CrashCounters::default();
        }
        false
    }

    /// One step of an isolating owner whose next record is at the frontier: announces whether that record is handed out in
    /// isolation. `is_committed` is whether the last commit was at the frontier. Returns whether all is announced.
    pub(crate) fn isolate(&mut self, alone: bool, frontier: i64, is_committed: bool) -> bool {
        let alone_here = alone || self.is_quarantined(frontier);
        // An owner that has handed out nothing has not begun.
        let begins = alone || self.wanted.count > self.found.count;
        self.wanted = CrashCounters {
            alone: alone_here,
            ..if begins { self.begun_up_to(self.end) } else { self.found }
        };
        let is_announced = !self.is_dirty() && (is_committed || !alone_here);
        self.is_open = is_announced && alone_here;
        is_announced
    }

    /// Whether no unfinished record is left that a crashed owner can have handed out.
    pub(crate) fn is_past(&self, reached: Reached) -> bool {
        reached.frontier >= self.end || reached.pending == 0 && reached.frontier > self.position
    }

    /// Withdraws the announcement of an isolating owner that is past the suspects.
    pub(crate) fn end_isolation(&mut self) {
        self.wanted = CrashCounters::default();
        self.is_open = false;
    }

    /// Notes a commit that has succeeded. Returns whether more records may be handed out because of it.
    pub(crate) fn handle_committed(&mut self, committed: CrashCounters) -> bool {
        self.announced = Some(committed);
        match self.mode {
            Mode::Announcing if committed == self.wanted => self.mode = Mode::Announced,
            Mode::Announced | Mode::Watching | Mode::Isolating if committed.count == 0 => {
                self.mode = Mode::Off;
                self.wanted = CrashCounters::default();
            }
            Mode::Watching | Mode::Isolating => {}
            Mode::Off | Mode::New | Mode::Announcing | Mode::Announced => return false,
        }
        true
    }

    /// Notes a commit that has failed. It may have been accepted.
    pub(crate) fn handle_commit_failed(&mut self) {
        self.announced = None;
    }

    /// Withdraws the announcement: the partition is given back, so this owner did not crash.
    pub(crate) fn withdraw(&mut self, reached: Reached) {
        let is_over = match self.mode {
            Mode::Off | Mode::New => return,
            Mode::Announcing | Mode::Announced => true,
            Mode::Watching | Mode::Isolating => self.is_past(reached),
        };
        self.mode = Mode::Off;
        if is_over {
            self.wanted = CrashCounters::default();
        } else if self.wanted.count > self.found.count || reached.frontier != self.position {
            self.wanted = CrashCounters {
                count: self.found.count,
                reach: Some(self.end),
                alone: self.is_quarantined(reached.frontier),
            };
        } else {
            self.wanted = self.found;
        }
    }

    fn begun(&self) -> CrashCounters {
        CrashCounters {
            count: self.found.count + 1,
            ..CrashCounters::default()
        }
    }

    fn begun_up_to(&self, reach: i64) -> CrashCounters {
        CrashCounters {
            reach: Some(reach),
            ..self.begun()
        }
    }
}

//! Owners that die, and what the next one makes of it.
//!
//! A record that ends the whole process leaves no trace, and the next owner begins where that one did: at the last commit.
//! So that is where it is written, in the metadata, that somebody begins; whoever moves on or gives the partition back
//! takes it away again. What is left there was left by owners that died.
//!
//! | owners died here | the next one is | which means |
//! |---|---|---|
//! | none | free | it tells that it begins before it hands out the first record, and then does as it likes |
//! | some | wary | it tells up to where it hands out records, before it does |
//! | all but one of the limit, or more | careful | it hands out one record at a time, and tells so before each |
//! | as many as the limit, the last one careful | careful | what that one had handed out is not handed out again |
//!
//! The record that killed them is one of those that were handed out. A wary owner says which these are at most, so a careful
//! one has few to look at. It is careful until it is past them, or has done all there is. Of all partitions of an
//! application one at a time has such a record out: if the process ends then, that one is to blame and no other.
//!
//! What is told is told by a commit that has succeeded, before. One that fails may count all the same, so what the group
//! knows is not known then, and told again.

/// So far ahead a wary owner tells what it hands out: a commit for so many records. As many are handed out one by one if it
/// dies too.
const WINDOW: i64 = 256;
/// Anybody can write metadata. More than this is as good as this.
const COUNT_MAX: u32 = 1_000;

/// What a commit tells of the owners that began at its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrashCounters {
    /// So many began, and neither got past what they had handed out nor gave the partition back.
    pub count: u32,
    /// They have handed out nothing from here on, if that is known.
    pub reach: Option<i64>,
    /// The last of them has handed out the record at the offset of the commit, alone.
    pub alone: bool,
}

/// What one owner of a partition may hand out, and what it has to tell before.
#[derive(Debug)]
pub(crate) struct Guard {
    mode: Mode,
    found: CrashCounters,
    /// Where it was found.
    position: i64,
    /// What the group should know.
    want: CrashCounters,
    /// What it knows; nobody knows that while a commit is under way that tells something else, or if that has failed.
    told: Option<CrashCounters>,
    /// Beyond this nothing was handed out by those that died.
    end: i64,
    /// The record that is not handed out any more.
    condemned: Option<i64>,
    /// The next record may be handed out, if one at a time is.
    is_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing is counted, or not any more.
    Free,
    /// Nobody died here, and nothing is handed out yet.
    New,
    /// So too, but it is being told.
    Telling,
    /// It is told.
    Counted,
    Wary,
    Isolating,
}

impl Guard {
    /// Counts nothing.
    pub(crate) fn off() -> Self {
        Self {
            mode: Mode::Free,
            found: CrashCounters::default(),
            position: 0,
            want: CrashCounters::default(),
            told: Some(CrashCounters::default()),
            end: 0,
            condemned: None,
            is_open: false,
        }
    }

    /// For whoever begins at `position`. Somebody who did not say so can have handed out what lies below `end`.
    pub(crate) fn new(limit: u32, mut found: CrashCounters, position: i64, end: i64) -> Self {
        found.count = found.count.min(COUNT_MAX);
        Self {
            mode: match found.count {
                count if count + 1 >= limit => Mode::Isolating,
                0 => Mode::New,
                _ => Mode::Wary,
            },
            found,
            position,
            want: found,
            told: Some(found),
            end: found.reach.unwrap_or(end),
            condemned: (found.alone && found.count >= limit).then_some(position),
            is_open: false,
        }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.mode == Mode::New
    }

    pub(crate) fn is_isolating(&self) -> bool {
        self.mode == Mode::Isolating
    }

    /// Whether records get in line one by one, each when it may.
    pub(crate) fn stages(&self) -> bool {
        matches!(self.mode, Mode::Wary | Mode::Isolating)
    }

    /// Whether nothing that is in line may be handed out.
    pub(crate) fn blocks(&self) -> bool {
        match self.mode {
            Mode::New | Mode::Telling => true,
            Mode::Isolating => !self.is_open,
            Mode::Free | Mode::Counted | Mode::Wary => false,
        }
    }

    /// How many owners died here.
    pub(crate) fn died(&self) -> u32 {
        self.found.count
    }

    pub(crate) fn is_condemned(&self, offset: i64) -> bool {
        self.condemned == Some(offset)
    }

    /// It may be handed out after all.
    pub(crate) fn pardon(&mut self) {
        self.condemned = None;
    }

    /// There is something that the group should know.
    pub(crate) fn is_dirty(&self) -> bool {
        self.told != Some(self.want)
    }

    /// What is committed now, if the lowest unfinished offset is this, and so many records are unfinished.
    pub(crate) fn starts(&mut self, frontier: i64, pending: u64) -> CrashCounters {
        let is_over = match self.mode {
            Mode::Counted => frontier > self.position,
            Mode::Wary => self.is_past(frontier, pending),
            Mode::Free | Mode::New | Mode::Telling | Mode::Isolating => false,
        };
        if is_over {
            self.want = CrashCounters::default();
        }
        // While it is under way, nobody knows which of both the group knows.
        if self.is_dirty() {
            self.told = None;
        }
        self.want
    }

    /// The first record is here.
    pub(crate) fn begin(&mut self, frontier: i64) {
        self.mode = Mode::Telling;
        self.position = frontier;
        self.want = self.begun();
    }

    /// Whether a wary owner may hand out what is at `offset`; if not, it has something to tell.
    pub(crate) fn lets(&mut self, offset: i64, frontier: i64, pending: u64) -> bool {
        let is_told =
            |told: CrashCounters| told.count > self.found.count && told.reach.is_some_and(|reach| offset < reach);
        if self.told.is_some_and(is_told) {
            return true;
        }
        self.want = self.begun_up_to(offset.saturating_add(WINDOW));
        if self.is_past(frontier, pending) {
            self.want = CrashCounters::default();
        }
        false
    }

    /// One step of a careful owner, whose next record is at the frontier: what it has to tell if that is to be handed out
    /// alone, or not. `is_here` is whether the last commit was for the frontier. Says whether nothing is left to be told.
    pub(crate) fn step(&mut self, alone: bool, frontier: i64, is_here: bool) -> bool {
        let alone_here = alone || self.is_condemned(frontier);
        // As long as nothing was handed out, it is not one more that began.
        let begins = alone || self.want.count > self.found.count;
        self.want = CrashCounters {
            alone: alone_here,
            ..if begins { self.begun_up_to(self.end) } else { self.found }
        };
        let is_told = !self.is_dirty() && (is_here || !alone_here);
        self.is_open = is_told && alone_here;
        is_told
    }

    /// Nothing is left that can have killed those before.
    pub(crate) fn is_past(&self, frontier: i64, pending: u64) -> bool {
        frontier >= self.end || pending == 0 && frontier > self.position
    }

    /// A careful owner is past it, and everybody may know.
    pub(crate) fn end_care(&mut self) {
        self.want = CrashCounters::default();
        self.is_open = false;
    }

    /// The group knows. Whether more may be handed out because of it.
    pub(crate) fn heard(&mut self, starts: CrashCounters) -> bool {
        self.told = Some(starts);
        match self.mode {
            Mode::Telling if starts == self.want => self.mode = Mode::Counted,
            Mode::Counted | Mode::Wary | Mode::Isolating if starts.count == 0 => {
                self.mode = Mode::Free;
                self.want = CrashCounters::default();
            }
            Mode::Wary | Mode::Isolating => {}
            Mode::Free | Mode::New | Mode::Telling | Mode::Counted => return false,
        }
        true
    }

    /// A commit has failed. It may count all the same.
    pub(crate) fn unheard(&mut self) {
        self.told = None;
    }

    /// The partition is given back in peace: this one did not die.
    pub(crate) fn withdraw(&mut self, frontier: i64, pending: u64) {
        let is_over = match self.mode {
            Mode::Free | Mode::New => return,
            Mode::Telling | Mode::Counted => true,
            Mode::Wary | Mode::Isolating => self.is_past(frontier, pending),
        };
        self.mode = Mode::Free;
        if is_over {
            self.want = CrashCounters::default();
        } else if self.want.count > self.found.count || frontier != self.position {
            self.want = CrashCounters {
                count: self.found.count,
                reach: Some(self.end),
                alone: self.is_condemned(frontier),
            };
        } else {
            self.want = self.found;
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

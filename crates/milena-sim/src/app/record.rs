//! Records, and the behaviour of their handlers.

use milena_machines::{
    Random,
    app::{Failure, Keyed, Outcome, RetryInfo},
};

/// A record of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// The same through all topics.
    pub(super) id: u64,
    pub(super) key: Option<[u8; 1]>,
    pub(super) nature: Nature,
    /// The main partition that it was written to first.
    pub(super) origin: usize,
    pub(super) retry: Option<RetryInfo>,
}

/// The behaviour of its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    Good,
    /// The number of failures, by an error or a panic.
    Fails(u32),
    Poison,
    /// It never succeeds.
    Hopeless,
    /// It needs the dependency.
    Dependent,
    /// It requests a little time, once.
    Later,
    /// It crashes the process, each time.
    Kills,
}

/// Records without a gap between them, as the machine keeps them.
#[derive(Debug, Clone)]
pub(super) struct Records(pub(super) Vec<Record>);

impl Keyed for Records {
    fn key(&self) -> Option<&[u8]> {
        self.key_at(0)
    }

    fn records(&self) -> u32 {
        self.0.len() as u32
    }

    fn key_at(&self, place: u32) -> Option<&[u8]> {
        let key = &self.0.get(place as usize)?.key;
        key.as_ref().map(<[u8; 1]>::as_slice)
    }

    fn split(&mut self, count: u32) -> Option<Self> {
        Some(Self(self.0.split_off(count as usize)))
    }
}

impl Record {
    pub(super) fn random(id: u64, origin: usize, kills: bool, random: &mut Random) -> Self {
        let nature = match random.below(20) {
            _ if kills => Nature::Kills,
            0..11 => Nature::Good,
            11..13 => Nature::Fails(1 + random.below(3) as u32),
            13 => Nature::Poison,
            14 => Nature::Hopeless,
            15 => Nature::Later,
            _ => Nature::Dependent,
        };
        let key = (random.below(8) > 0).then(|| [b'a' + random.below(4) as u8]);
        Self {
            id,
            key,
            nature,
            origin,
            retry: None,
        }
    }

    /// The result of an attempt of its handler.
    pub(super) fn outcome(&self, attempt: u32, calls: u32, dependency_fails: bool, emits: bool) -> Outcome {
        let good = if emits { Outcome::Emit } else { Outcome::Done };
        match self.nature {
            Nature::Fails(times) if attempt <= times => Outcome::Failed(Failure::Retry),
            Nature::Poison => Outcome::Failed(Failure::Poison),
            Nature::Hopeless => Outcome::Failed(Failure::Retry),
            Nature::Dependent if dependency_fails => {
                Outcome::Failed(Failure::Dependency(milena_machines::app::BreakerId(0)))
            }
            Nature::Later if calls == 1 => Outcome::RetryAfter { ms: 70 },
            _ => good,
        }
    }
}

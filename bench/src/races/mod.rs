//! Consumers side by side: the same topic, the same broker, one reader after the other in every round.

mod consumers;
mod latency;
mod load;
mod small_polls;
mod stalled;
mod standings;

use anyhow::Result;

pub use load::{Fill, fill};

use crate::{
    Scale,
    peers::Peer,
    readers::{Programs, Reader},
};

pub struct Race {
    pub name: &'static str,
    /// Gives the text that shows what was measured.
    pub run: fn(&Plan) -> Result<String>,
}

pub const RACES: &[Race] = &[
    consumers::PLAIN,
    consumers::LZ4,
    consumers::ZSTD,
    small_polls::RACE,
    latency::RACE,
    stalled::RACE,
];

/// Partitions of a topic that readers read, all of them at once.
const PARTITIONS: i32 = 6;

/// Who runs against whom, and how often.
pub struct Plan {
    pub scale: Scale,
    pub rounds: usize,
    pub brokers: Vec<Peer>,
    pub readers: Vec<Reader>,
    pub programs: Programs,
}

impl Plan {
    /// The readers of a round. Who comes first changes, so that nobody always runs behind the same one.
    fn readers_of(&self, round: usize) -> Vec<Reader> {
        let mut readers = self.readers.clone();
        let first = round % readers.len().max(1);
        readers.rotate_left(first);
        readers
    }
}

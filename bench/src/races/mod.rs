//! Clients side by side: the same records, the same broker, one client after the other in every round.

mod consumers;
mod latency;
mod load;
mod producers;
mod send_latency;
mod small_polls;
mod stalled;
mod standings;

use anyhow::Result;

pub use load::{Fill, Load, fill};
pub use standings::Racer;

use crate::{Scale, peers::Peer, programs::Programs, readers::Reader, writers::Writer};

pub struct Race {
    pub name: &'static str,
    /// Returns the results as text.
    pub run: fn(&Plan) -> Result<String>,
}

pub const RACES: &[Race] = &[
    consumers::PLAIN,
    consumers::LZ4,
    consumers::ZSTD,
    small_polls::RACE,
    latency::RACE,
    stalled::RACE,
    producers::PLAIN,
    producers::DEFAULTS,
    producers::KEYED,
    producers::DEFAULTS_KEYED,
    producers::DEFAULTS_WIDE,
    producers::LZ4,
    producers::ZSTD,
    send_latency::RACE,
];

/// Partitions of a topic that is read or written, all of them at once.
const PARTITIONS: i32 = 6;

/// The participants and the number of rounds.
pub struct Plan {
    pub scale: Scale,
    pub rounds: usize,
    pub brokers: Vec<Peer>,
    pub readers: Vec<Reader>,
    pub writers: Vec<Writer>,
    pub programs: Programs,
}

/// Touches and frees memory. Where the system is slow to hand out memory for the first time, the first racer would pay for
/// it, and the next ones would not.
fn warm_memory() -> Result<()> {
    const BYTES: usize = 2 << 30;
    let path = std::path::Path::new("/dev/shm").join(format!("milena-bench-{}", std::process::id()));
    let mut file = std::fs::File::create(&path)?;
    let block = vec![1; 1 << 20];
    let written = (0..BYTES >> 20).try_for_each(|_| std::io::Write::write_all(&mut file, &block));
    std::fs::remove_file(&path)?;
    Ok(written?)
}

/// The racers of a round. The order changes, so that none always runs after the same one.
fn in_turn<R: Racer>(racers: &[R], round: usize) -> Vec<R> {
    let mut racers = racers.to_vec();
    let first = round % racers.len().max(1);
    racers.rotate_left(first);
    racers
}

//! Counters of a reader, and their report.

use std::{
    io::{self, Write},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};

use super::Job;

/// Nothing for so long means that nothing will come.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Tally {
    began: Instant,
    wanted: u64,
    records: u64,
    bytes: u64,
    polls: u64,
    is_timed: bool,
    now: u64,
    /// The number of each record and when it was there, in nanoseconds since 1970.
    times: Vec<(u64, u64)>,
}

impl Tally {
    /// Begins before the consumer is created: finding the partitions counts too.
    pub fn start(job: &Job) -> Self {
        Self {
            began: Instant::now(),
            wanted: job.records,
            records: 0,
            bytes: 0,
            polls: 0,
            is_timed: job.timed != 0,
            now: 0,
            times: vec![],
        }
    }

    pub fn is_done(&self) -> bool {
        self.records >= self.wanted
    }

    /// A poll has returned. Its records follow.
    pub fn polled(&mut self, is_empty: bool) -> Result<()> {
        ensure!(
            !is_empty,
            "nothing comes any more after {} of {} records",
            self.records,
            self.wanted
        );
        self.polls += 1;
        if self.is_timed {
            self.now = unix_nanos();
        }
        Ok(())
    }

    #[inline]
    pub fn see(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.records += 1;
        self.bytes += (key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)) as u64;
        if self.is_timed {
            let number = value.and_then(|value| value.first_chunk::<8>());
            self.times
                .push((u64::from_be_bytes(*number.unwrap_or(&[0; 8])), self.now));
        }
    }

    /// Prints the counters to standard output, where the parent reads them.
    pub fn report(self) -> Result<()> {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut out = io::BufWriter::new(io::stdout().lock());
        writeln!(out, "{} {} {seconds} {}", self.records, self.bytes, self.polls)?;
        for (number, nanos) in self.times {
            writeln!(out, "{number} {nanos}")?;
        }
        Ok(out.flush()?)
    }
}

pub fn unix_nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64
}

//! Counters of a writer, and their report.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::Job;

pub struct Tally {
    began: Instant,
    wanted: u64,
    record_bytes: u64,
    /// Time of each record, in nanoseconds.
    times: Vec<u64>,
}

impl Tally {
    /// Begins before the producer is created: finding the partitions counts too.
    pub fn start(job: &Job) -> Self {
        Self {
            began: Instant::now(),
            wanted: job.records,
            record_bytes: (job.value_size + job.key(0).map_or(0, |key| key.len())) as u64,
            times: vec![],
        }
    }

    pub fn took(&mut self, time: Duration) {
        self.times.push(time.as_nanos() as u64);
    }

    /// Prints the counters to standard output, where the parent reads them, when all records are acknowledged.
    pub fn report(self, acknowledged: u64) -> Result<()> {
        let seconds = self.began.elapsed().as_secs_f64();
        ensure!(
            acknowledged == self.wanted,
            "only {acknowledged} of {} records were acknowledged",
            self.wanted
        );
        let mut out = io::BufWriter::new(io::stdout().lock());
        writeln!(out, "{acknowledged} {} {seconds}", acknowledged * self.record_bytes)?;
        for (number, nanos) in self.times.iter().enumerate() {
            writeln!(out, "{number} {nanos}")?;
        }
        Ok(out.flush()?)
    }
}

//! Consumers under comparison. Each reads in a separate process, so that the system counts its costs.

mod krafka;
mod librdkafka;
mod ours;
mod raw_loop;
mod tally;
mod walk;
mod watch;

use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;

pub use tally::unix_nanos;
pub use watch::{Watch, watch};

use crate::{child::Started, programs::Programs, races::Racer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Reader {
    Ours,
    /// The same with `milena.io=runtime`.
    OursRuntime,
    /// One blocking socket, one Fetch after the other, checksums, and a walk over every record: the line to come close to.
    Raw,
    Librdkafka,
    Krafka,
    Franz,
    Java,
}

impl Racer for Reader {
    const ALL: &'static [Self] = &[
        Self::Ours,
        Self::OursRuntime,
        Self::Raw,
        Self::Librdkafka,
        Self::Krafka,
        Self::Franz,
        Self::Java,
    ];
    const OURS: &'static [Self] = &[Self::Ours, Self::OursRuntime];
    const RAW: Option<Self> = Some(Self::Raw);

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursRuntime => "ours-runtime",
            Self::Raw => "raw loop",
            Self::Librdkafka => "librdkafka",
            Self::Krafka => "krafka",
            Self::Franz => "franz-go",
            Self::Java => "Java",
        }
    }
}

/// The job of a reader: a number of records from the beginning of all partitions, assigned manually.
#[derive(Debug, Clone, clap::Args)]
pub struct Job {
    pub address: String,
    pub topic: String,
    pub partitions: i32,
    pub records: u64,
    /// Records per poll; 0 for the reader's best setting.
    pub poll_records: usize,
    /// 1 to report the arrival time of each record. Its value then begins with its number.
    pub timed: u8,
}

impl Job {
    /// The arguments by which each program understands it.
    fn words(&self) -> Vec<String> {
        vec![
            self.address.clone(),
            self.topic.clone(),
            self.partitions.to_string(),
            self.records.to_string(),
            self.poll_records.to_string(),
            self.timed.to_string(),
        ]
    }
}

/// Starts a reader in a separate process.
pub fn start(reader: Reader, job: &Job, programs: &Programs) -> Result<Started> {
    let mut command = match reader {
        Reader::Franz => programs.franz("consume"),
        Reader::Java => programs.java("Consume")?,
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command
                .arg("read")
                .args(reader.to_possible_value().map(|value| value.get_name().to_owned()));
            command
        }
    };
    command.args(job.words());
    Started::spawn(reader.name(), command)
}

/// The whole life of a child process that is written in Rust.
pub fn read(reader: Reader, job: &Job) -> Result<()> {
    match reader {
        Reader::Ours => ours::read(job, "thread"),
        Reader::OursRuntime => ours::read(job, "runtime"),
        Reader::Raw => raw_loop::read(job),
        Reader::Librdkafka => librdkafka::read(job),
        Reader::Krafka => krafka::read(job),
        Reader::Franz | Reader::Java => bail!("{} is a program of its own", reader.name()),
    }
}

//! Producers under comparison. Each writes in a separate process, so that the system counts its costs.
//!
//! All of them wait for all replicas, retry without duplicates (`enable.idempotence`), and use their own
//! partitioner.

mod krafka;
mod librdkafka;
mod ours;
mod tally;
mod values;

use std::{path::PathBuf, process::Command};

use anyhow::{Result, bail};
use clap::ValueEnum;

pub use values::VALUES_BYTES;

use crate::{child::Started, programs::Programs, races::Racer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Writer {
    Ours,
    /// The same with `milena.io=runtime`.
    OursRuntime,
    Librdkafka,
    Krafka,
    Franz,
    Java,
}

impl Racer for Writer {
    const ALL: &'static [Self] = &[
        Self::Ours,
        Self::OursRuntime,
        Self::Librdkafka,
        Self::Krafka,
        Self::Franz,
        Self::Java,
    ];
    const OURS: &'static [Self] = &[Self::Ours, Self::OursRuntime];
    const RAW: Option<Self> = None;

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursRuntime => "ours-runtime",
            Self::Librdkafka => "librdkafka",
            Self::Krafka => "krafka",
            Self::Franz => "franz-go",
            Self::Java => "Java",
        }
    }
}

/// The settings of tuned writers: the best of a few batch sizes that were tried. librdkafka and franz-go have
/// batches of a megabyte by default; longer queues brought them no clear gain.
pub const TUNED: &str = "batch.size: ours and krafka 100 000, Java 1 000 000 with buffer.memory 128 MiB; \
                         librdkafka and franz-go have 1 000 000 by default";

/// The job of a writer.
#[derive(Debug, Clone, clap::Args)]
pub struct Job {
    pub address: String,
    pub topic: String,
    pub records: u64,
    /// A file with the values, used one after the other.
    pub values: PathBuf,
    pub value_size: usize,
    pub codec: String,
    /// Number of keys of 8 bytes, used in turn; 0 for records without keys.
    pub keys: u64,
    /// 1 for the settings that were best of those tried; 0 for its defaults.
    pub tuned: u8,
    /// 1 to send one record at a time, each after the acknowledgement of the previous one, and to report the
    /// time of each.
    pub timed: u8,
}

impl Job {
    /// The arguments by which each program understands it.
    fn words(&self) -> Vec<String> {
        vec![
            self.address.clone(),
            self.topic.clone(),
            self.records.to_string(),
            self.values.to_string_lossy().into_owned(),
            self.value_size.to_string(),
            self.codec.clone(),
            self.keys.to_string(),
            self.tuned.to_string(),
            self.timed.to_string(),
        ]
    }

    fn is_tuned(&self) -> bool {
        self.tuned != 0
    }

    fn is_timed(&self) -> bool {
        self.timed != 0
    }

    fn key(&self, number: u64) -> Option<[u8; 8]> {
        (self.keys != 0).then(|| (number % self.keys).to_be_bytes())
    }
}

/// Starts a writer in a separate process.
pub fn start(writer: Writer, job: &Job, programs: &Programs) -> Result<Started> {
    let mut command = match writer {
        Writer::Franz => programs.franz("write"),
        Writer::Java => programs.java("Produce")?,
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command
                .arg("write")
                .args(writer.to_possible_value().map(|value| value.get_name().to_owned()));
            command
        }
    };
    command.args(job.words());
    Started::spawn(writer.name(), command)
}

/// The whole life of a child process that is written in Rust.
pub fn write(writer: Writer, job: &Job) -> Result<()> {
    match writer {
        Writer::Ours => ours::write(job, "thread"),
        Writer::OursRuntime => ours::write(job, "runtime"),
        Writer::Librdkafka => librdkafka::write(job),
        Writer::Krafka => krafka::write(job),
        Writer::Franz | Writer::Java => bail!("{} is a program of its own", writer.name()),
    }
}

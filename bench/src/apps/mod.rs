//! Applications under comparison. Each runs in a separate process, so that the system counts its costs.

mod load;
mod ours;
mod plain;
pub mod requests;

use std::process::Command;

use anyhow::{Result, bail};

pub use load::{FillKeys, Keys, fill, put};

use crate::{
    child::{Measured, Started},
    programs::Programs,
};

/// The implementation that handles the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Runner {
    /// Our runtime, a call for each record.
    Ours,
    /// Our runtime, a call for up to 500 records.
    Batches,
    /// Our consumer in a loop that handles one record after the other and commits now and then.
    Plain,
    /// Confluent's Parallel Consumer.
    Parallel,
}

/// The work of the handler for each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Task {
    /// It takes a time; by key.
    Work,
    /// It is copied, at least once.
    Copy,
    /// It is copied in transactions of 100 ms.
    CopyOnce,
    /// It fails as poison.
    Poison,
    /// It fails, and is tried again from a retry topic a second later.
    Retry,
    /// It fails, and waits for an hour in a retry topic.
    ParkInTopic,
    /// It fails, and waits for an hour in its queue.
    ParkInPlace,
}

#[derive(Debug, Clone, clap::Args)]
pub struct Job {
    pub address: String,
    pub topic: String,
    /// It ends when so many records are done.
    pub records: u64,
    #[arg(value_enum)]
    pub task: Task,
    /// Duration of the work for each record.
    pub work_ms: u64,
}

impl Job {
    /// Topic of the copies.
    pub fn output(&self) -> String {
        format!("{}-copies", self.topic)
    }
}

/// Runs the job with one of them.
pub fn run(runner: Runner, job: &Job, programs: Option<&Programs>) -> Result<Measured> {
    let task =
        clap::ValueEnum::to_possible_value(&job.task).map_or_else(String::new, |task| task.get_name().to_owned());
    let words = [
        job.address.clone(),
        job.topic.clone(),
        job.records.to_string(),
        task,
        job.work_ms.to_string(),
    ];
    let mut command = match (runner, programs) {
        (Runner::Parallel, Some(programs)) => programs.java("Parallel")?,
        (Runner::Parallel, None) => bail!("Java's programs are not built"),
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["handle", &format!("{runner:?}").to_lowercase()]);
            command
        }
    };
    command.args(words);
    Started::spawn("an application", command)?.wait()
}

/// The whole life of a child process that is written in Rust.
pub fn handle(runner: Runner, job: &Job) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match runner {
        Runner::Ours => runtime.block_on(ours::handle(job, false)),
        Runner::Batches => runtime.block_on(ours::handle(job, true)),
        Runner::Plain => runtime.block_on(plain::handle(job)),
        Runner::Parallel => bail!("Parallel Consumer is a program of its own"),
    }
}

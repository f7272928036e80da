//! `milena protocol`: the tables of the wire protocol, and the batches in a segment file.

mod batches;
mod tables;

use std::{
    io::{BufWriter, Write as _, stdout},
    path::PathBuf,
};

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the APIs, with the versions that Milena's client and broker speak
    Apis,
    /// List the error codes, or explain one of them
    Errors {
        /// A code, as in 6, or a name, as in NOT_LEADER_OR_FOLLOWER
        error: Option<String>,
    },
    /// List the record batches in a segment file (.log) and check each
    Batches {
        file: PathBuf,
        /// Show the records too
        #[arg(long)]
        records: bool,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    match command {
        Command::Apis => tables::apis(&mut out)?,
        Command::Errors { error: None } => tables::errors(&mut out)?,
        Command::Errors { error: Some(error) } => tables::error(&mut out, error)?,
        Command::Batches { file, records } => batches::list(&mut out, file, *records)?,
    }
    out.flush()?;
    Ok(())
}

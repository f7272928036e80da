//! `milena protocol`: tables of the wire protocol, and the batches of a segment file.

mod batches;
mod tables;

use std::{
    io::{BufWriter, Write as _, stdout},
    path::PathBuf,
};

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the APIs with the versions of Milena's client and broker
    Apis,
    /// List the error codes, or explain one
    Errors {
        /// Code such as 6, or name such as NOT_LEADER_OR_FOLLOWER
        error: Option<String>,
    },
    /// List and verify the record batches of a segment file (.log)
    Batches {
        file: PathBuf,
        /// Print the records too
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

//! `milena man`: manual pages.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use crate::log;

pub(crate) const HELP: &str = "\
Example:
  milena man ~/.local/share/man/man1 && man milena-topic-create";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the pages; it is created if necessary
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let dir = &arguments.dir;
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let command = crate::full_command_line().disable_help_subcommand(true);
    clap_mangen::generate_to(command, dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    log::notice(format_args!("manual pages written to {}", dir.display()));
    Ok(())
}

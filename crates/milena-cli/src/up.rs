//! `milena up`: a broker with defaults for everything.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::{
    broker::{self, ServingArguments},
    log,
    log_levels::LogControl,
};

/// The address that other commands use without `-b`.
const DEFAULT: &str = "127.0.0.1:9092";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data directory [default: $XDG_DATA_HOME/milena or ~/.local/share/milena]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    serving: ServingArguments,
}

pub(crate) fn run(arguments: &Arguments, levels: LogControl) -> Result<()> {
    let given = arguments.data_dir.clone();
    let data_dir = given.or_else(default_data_dir);
    let data_dir = data_dir.context("no data directory: set --data-dir DIR, HOME or XDG_DATA_HOME")?;
    broker::serve(&arguments.serving, &data_dir, levels, |address| {
        let option = match address == DEFAULT {
            true => String::new(),
            false => format!(" -b {address}"),
        };
        log::notice(format_args!("data directory: {}", data_dir.display()));
        log::notice(format_args!("try: echo hello | milena produce{option} letters"));
        log::notice(format_args!("and: milena consume{option} letters"));
    })
}

/// The user's data directory, as the XDG specification defines it.
fn default_data_dir() -> Option<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    let data = data.or_else(|| Some(std::env::home_dir()?.join(".local/share")))?;
    Some(data.join("milena"))
}

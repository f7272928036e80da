//! Log output of every command, on stderr.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result};
use clap::{ArgAction, ValueEnum};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt as _,
};

use crate::log_levels::LogControl;

/// Whether `-q` was given, which hides notices too.
static QUIET: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArguments {
    /// Log more: -v, -vv; RUST_LOG sets levels by module
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Log errors only, without notices
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Format of log lines on stderr
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    #[arg(help = "Format of log lines: text or json")]
    log_format: Format,
}

impl LogArguments {
    /// Starts logging. `default` is the level without `-v`, `-q` and `RUST_LOG`.
    pub(crate) fn init(&self, default: LevelFilter) -> Result<LogControl> {
        QUIET.store(self.quiet, Ordering::Relaxed);
        let targets = self.filter(default)?;
        let (filter, handle) = reload::Layer::new(targets.clone());
        let filtered = tracing_subscriber::registry().with(filter);
        let lines = fmt::layer().with_writer(io::stderr);
        match self.log_format {
            Format::Text => filtered.with(lines.with_target(false)).try_init()?,
            Format::Json => filtered.with(lines.json().flatten_event(true)).try_init()?,
        }
        Ok(LogControl::new(&targets, handle))
    }

    /// `-v` and `-q` override `RUST_LOG`: they were typed for this one command.
    fn filter(&self, default: LevelFilter) -> Result<Targets> {
        let directives = std::env::var("RUST_LOG").ok().filter(|text| !text.trim().is_empty());
        match directives.filter(|_| self.verbose == 0 && !self.quiet) {
            Some(directives) => directives.parse().with_context(|| {
                format!("RUST_LOG={directives} is not a valid filter; use one such as info or warn,milena_client=debug")
            }),
            None => Ok(self.targets(default)),
        }
    }

    fn targets(&self, default: LevelFilter) -> Targets {
        let level = self.level(default);
        let targets = Targets::new().with_default(level);
        match level == LevelFilter::WARN {
            // The command ends with the same text as its error.
            true => targets.with_target("milena_client::authentication", LevelFilter::ERROR),
            false => targets,
        }
    }

    fn level(&self, default: LevelFilter) -> LevelFilter {
        const LEVELS: [LevelFilter; 5] = [
            LevelFilter::ERROR,
            LevelFilter::WARN,
            LevelFilter::INFO,
            LevelFilter::DEBUG,
            LevelFilter::TRACE,
        ];
        if self.quiet {
            return LevelFilter::ERROR;
        }
        let place = LEVELS.iter().position(|level| *level == default).unwrap_or_default();
        let place = place.saturating_add(usize::from(self.verbose));
        LEVELS.get(place).copied().unwrap_or(LevelFilter::TRACE)
    }
}

/// Prints a notice to stderr, unless `-q` was given.
pub(crate) fn notice(text: impl std::fmt::Display) {
    if !QUIET.load(Ordering::Relaxed) {
        eprintln!("milena: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_counts_from_the_default_of_the_command() {
        let level = |verbose, quiet, default| {
            LogArguments {
                verbose,
                quiet,
                log_format: Format::Text,
            }
            .level(default)
        };
        assert_eq!(level(0, false, LevelFilter::WARN), LevelFilter::WARN);
        assert_eq!(level(1, false, LevelFilter::WARN), LevelFilter::INFO);
        assert_eq!(level(2, false, LevelFilter::WARN), LevelFilter::DEBUG);
        assert_eq!(level(1, false, LevelFilter::INFO), LevelFilter::DEBUG);
        assert_eq!(level(9, false, LevelFilter::INFO), LevelFilter::TRACE);
        assert_eq!(level(0, true, LevelFilter::INFO), LevelFilter::ERROR);
    }
}

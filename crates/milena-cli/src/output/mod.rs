//! Output of commands: tables for people, JSON and YAML for programs.

mod table;
mod yaml;

pub(crate) use table::Table;

use std::io::{Write as _, stdout};

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use milena_client::admin::Results;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

#[derive(clap::Args)]
pub(crate) struct OutputArguments {
    /// Output format: text, json or yaml
    #[arg(short, short_alias = 'f', long, alias = "format", value_name = "FORMAT")]
    #[arg(value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    output: Format,
}

impl OutputArguments {
    /// Prints `value` as JSON or YAML, or `text`.
    pub(crate) fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
        let text = match self.output {
            Format::Text => text(),
            Format::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
            Format::Yaml => yaml::write(&serde_json::to_value(value)?),
        };
        stdout().lock().write_all(text.as_bytes())?;
        Ok(())
    }
}

/// The outcome of one item.
#[derive(Serialize)]
pub(crate) struct Outcome {
    name: String,
    /// `None` after success.
    error: Option<String>,
}

/// Prints the outcome of each item. Errors go to stderr and make the command fail.
pub(crate) fn print_outcomes<K: ToString, V>(
    output: &OutputArguments,
    results: Results<K, V>,
    done: impl Fn(&str, &V) -> String,
) -> Result<()> {
    let outcomes: Vec<Outcome> = results
        .iter()
        .map(|(key, result)| Outcome {
            name: key.to_string(),
            error: result.as_ref().err().map(ToString::to_string),
        })
        .collect();
    output.print(&outcomes, || {
        let done = results.iter().filter_map(|(key, result)| {
            let value = result.as_ref().ok()?;
            Some(format!("{}\n", done(&key.to_string(), value)))
        });
        done.collect()
    })?;
    fail_if_any(results.into_values().filter_map(Result::err))
}

/// Splits results into the successful ones and one error for the rest.
pub(crate) fn split<K: Ord, V>(results: Results<K, V>) -> (Vec<(K, V)>, Result<()>) {
    let (mut good, mut bad) = (vec![], vec![]);
    for (key, result) in results {
        match result {
            Ok(value) => good.push((key, value)),
            Err(error) => bad.push(error),
        }
    }
    (good, fail_if_any(bad))
}

/// An error with one line per item, or `Ok` without items.
pub(crate) fn fail_if_any<E: ToString>(errors: impl IntoIterator<Item = E>) -> Result<()> {
    let lines: Vec<String> = errors.into_iter().map(|error| error.to_string()).collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(anyhow!(lines.join("\nmilena: "))),
    }
}

/// A number and its noun, as in `1 record` and `2 records`.
pub(crate) fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    counted_in(count, noun, &format!("{noun}s"))
}

/// As [`counted`], with an irregular plural.
pub(crate) fn counted_in(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    match count.try_into().unwrap_or_default() {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

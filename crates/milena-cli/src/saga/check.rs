//! `milena saga check`.

use std::{
    io::{Write as _, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::ValueEnum;
use milena_app::saga::SagaFile;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// TOML file with tables [saga.NAME]
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output: text or mermaid
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Diagram::Text, hide_possible_values = true)]
    output: Diagram,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Diagram {
    /// For a terminal
    Text,
    /// For documents
    Mermaid,
}

pub(super) fn check(arguments: &Arguments) -> Result<()> {
    let file = SagaFile::read(&arguments.file)?;
    let texts: Vec<String> = file
        .sagas
        .iter()
        .map(|saga| match arguments.output {
            Diagram::Text => saga.describe(),
            Diagram::Mermaid => saga.mermaid(),
        })
        .collect();
    stdout().lock().write_all(texts.join("\n").as_bytes())?;
    Ok(())
}

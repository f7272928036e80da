//! `cargo xtask measure`: sizes, duplicates and vocabulary of each crate, as two tables.
//!
//! Generated files are left out. Tests, benches and examples count only as test code. The figures compare versions of this
//! repository with each other, so their definitions must not change; the scanner is good to a few percent.

mod duplicates;
mod figures;
pub(crate) mod language;
mod table;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::source::{self, SourceFile};
use duplicates::Duplicates;
use figures::Figures;
use language::Language;

/// Measure sizes, duplicates and vocabulary of each crate
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Another checkout to measure instead of this one
    root: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let files = source::read_all(args.root.as_deref().unwrap_or(root))?;
    let duplicates = Duplicates::find(&files);
    let mut figures: BTreeMap<String, Figures> = BTreeMap::new();
    let mut language: BTreeMap<String, Language> = BTreeMap::new();
    for file in &files {
        let copied = duplicates.of(&file.path);
        for name in [file.package_name(), ALL.to_owned()] {
            // The benches against other clients are a workspace of their own.
            if name != ALL || !file.package.ends_with("bench") {
                figures.entry(name.clone()).or_default().add(file, copied);
            }
            language.entry(name).or_default().add(file);
        }
    }
    figures.retain(|_, figures| figures.has_production_code());
    table::print(&figures::HEAD, &rows(&figures, Figures::row));
    println!();
    table::print(&language::HEAD, &rows(&language, Language::row));
    println!();
    print_answers(&files);
    Ok(())
}

/// The row of all crates together; sorts after every name of a crate.
const ALL: &str = "~all";

fn rows<T>(by_crate: &BTreeMap<String, T>, row: impl Fn(&T) -> Vec<String>) -> Vec<Vec<String>> {
    let with_name = |(name, value): (&String, &T)| {
        let mut cells = vec![name.trim_start_matches('~').to_owned()];
        cells.extend(row(value));
        cells
    };
    by_crate.iter().map(with_name).collect()
}

/// Counts "answer" where the word must be "response".
fn print_answers(files: &[SourceFile]) {
    for folder in language::RESPONSE_FOLDERS {
        let of_folder = files.iter().filter(|file| file.path.starts_with(folder));
        let (comments, code) = of_folder
            .map(language::answers)
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        println!("\"answer\" in {folder}: {comments} in comments, {code} in code");
    }
}

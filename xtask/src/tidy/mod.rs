//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Each rule is a file. A rule returns one line for each offence, with the remedy.

mod exceptions;
mod files;
mod language;
mod packages;
mod walls;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::{
    generate,
    source::{self, tracked_files},
};
use exceptions::{Exceptions, FILE};

/// Check the rules of this repository that no compiler checks
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lower the counts in xtask/exceptions.txt to the offences there are
    #[arg(long)]
    update_exceptions: bool,
}

/// An offence of a rule that may have exceptions.
struct Offence {
    rule: &'static str,
    path: PathBuf,
    line: usize,
    text: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.text)
    }
}

/// Checks every rule and lists all offences.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    if args.update_exceptions {
        return Exceptions::read(root)?.lower(root, &language_offences(root)?);
    }
    let offences = offences(root)?;
    if offences.is_empty() {
        println!("tidy");
        return Ok(());
    }
    for offence in &offences {
        eprintln!("{offence}");
    }
    bail!("{} offences; CONTRIBUTING.md explains the rules", offences.len())
}

fn offences(root: &Path) -> Result<Vec<String>> {
    let mut offences = walls::check(root)?;
    offences.extend(packages::check(root)?);
    for path in tracked_files(root)? {
        // Files that are not text have no lines to check.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            offences.extend(files::check(&path, &text));
        }
    }
    let (exceptions, of_language) = (Exceptions::read(root)?, language_offences(root)?);
    offences.extend(exceptions.uncovered(&of_language));
    // Otherwise new offences could take the room of old ones.
    let obsolete = exceptions.obsolete(&of_language);
    if obsolete > 0 {
        offences.push(format!(
            "{FILE}: {obsolete} exceptions are obsolete; run `cargo xtask tidy --update-exceptions`"
        ));
    }
    for path in generate::stale(root)? {
        offences.push(format!("{}: is stale; run `cargo xtask generate`", path.display()));
    }
    Ok(offences)
}

fn language_offences(root: &Path) -> Result<Vec<Offence>> {
    Ok(source::read_all(root)?.iter().flat_map(language::check).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let offences = offences(crate::root()).unwrap();
        assert!(offences.is_empty(), "{}", offences.join("\n"));
    }
}

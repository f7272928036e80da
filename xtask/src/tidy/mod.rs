//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Each rule is a file. A rule returns what offends it, one line each, with what to do about it.

mod files;
mod walls;

use std::{fs, path::Path};

use anyhow::{Result, bail};

use crate::{generate, source::tracked_files};

/// Checks every rule and lists all offences.
pub(crate) fn run(root: &Path) -> Result<()> {
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
    for path in tracked_files(root)? {
        // Files that are not text have no lines to check.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            offences.extend(files::check(&path, &text));
        }
    }
    for path in generate::stale(root)? {
        offences.push(format!("{}: is stale; run `cargo xtask generate`", path.display()));
    }
    Ok(offences)
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

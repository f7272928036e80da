//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Each rule is a file. A rule returns what offends it, one line each, with what to do about it.

mod source;
mod walls;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::generate;

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
            offences.extend(source::check(&path, &text));
        }
    }
    for path in generate::stale(root)? {
        offences.push(format!("{}: is stale; run `cargo xtask generate`", path.display()));
    }
    Ok(offences)
}

/// The files that git has or would take, by path from the root.
fn tracked_files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git cannot list the files of {}",
        root.display()
    );
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
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

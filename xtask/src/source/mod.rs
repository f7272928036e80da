//! The Rust files of this repository, split into code and comments for `measure`, `map` and `tidy`.

pub(crate) mod functions;
pub(crate) mod lines;
pub(crate) mod words;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::generate;
use lines::Line;

/// A Rust file that was not generated.
pub(crate) struct SourceFile {
    /// Path from the root of the repository.
    pub(crate) path: PathBuf,
    /// Folder of its package: `crates/milena-log`, `xtask`, `bench`.
    pub(crate) package: PathBuf,
    /// Whether all of it is a test, a bench, an example or a fuzz target.
    pub(crate) is_test: bool,
    pub(crate) lines: Vec<Line>,
}

impl SourceFile {
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        let mut lines = lines::split(text);
        let is_test = is_test_path(path);
        if is_test {
            for line in &mut lines {
                line.is_test = true;
            }
        }
        Self {
            path: path.to_owned(),
            package: package_of(path),
            is_test,
            lines,
        }
    }

    /// The first `//!` line, if the file opens with one.
    pub(crate) fn module_doc(&self) -> Option<&str> {
        let first = self
            .lines
            .iter()
            .find(|line| line.module_doc().is_some() || line.is_code())?;
        first.module_doc()
    }

    /// Name of its package without the prefix that all crates share.
    pub(crate) fn package_name(&self) -> String {
        let name = self.package.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix("milena-").unwrap_or(&name).to_owned()
    }
}

/// Reads every Rust file below `root` that git tracks or would track, except generated ones, by path.
pub(crate) fn read_all(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = vec![];
    for path in tracked_files(root)? {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        // Deleted in the work tree, but not yet in the index.
        let Ok(text) = fs::read_to_string(root.join(&path)) else {
            continue;
        };
        if !text.starts_with(generate::MARK) {
            files.push(SourceFile::new(&path, &text));
        }
    }
    Ok(files)
}

/// The files that git tracks or would track, by path from the root.
pub(crate) fn tracked_files(root: &Path) -> Result<Vec<PathBuf>> {
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
    let mut paths: Vec<_> = names.split_terminator('\0').map(PathBuf::from).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

fn package_of(path: &Path) -> PathBuf {
    let depth = if path.starts_with("crates") { 2 } else { 1 };
    path.components().take(depth).collect()
}

/// Whether the path alone says that the file holds no production code.
fn is_test_path(path: &Path) -> bool {
    let folders = ["tests", "benches", "examples", "fuzz", "bench"];
    let is_folder = |part: &std::ffi::OsStr| folders.iter().any(|folder| part == *folder);
    path.ends_with("tests.rs") || path.parent().is_some_and(|parent| parent.iter().any(is_folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_decide_package_and_kind() {
        let kinds = |path: &str| {
            let file = SourceFile::new(Path::new(path), "");
            (file.package_name(), file.is_test)
        };
        assert_eq!(kinds("crates/milena-log/src/log.rs"), ("log".to_owned(), false));
        assert_eq!(
            kinds("crates/milena-log/src/producers/tests.rs"),
            ("log".to_owned(), true)
        );
        assert_eq!(kinds("crates/milena-log/tests/it/main.rs"), ("log".to_owned(), true));
        assert_eq!(kinds("crates/milena/examples/a.rs"), ("milena".to_owned(), true));
        assert_eq!(kinds("bench/src/main.rs"), ("bench".to_owned(), true));
        assert_eq!(kinds("xtask/src/main.rs"), ("xtask".to_owned(), false));
    }

    #[test]
    fn the_module_doc_comes_before_any_code() {
        let doc = |text: &str| SourceFile::new(Path::new("a.rs"), text).module_doc().map(str::to_owned);
        assert_eq!(
            doc("// A note.\n\n//! Segments.\n//! More.\n"),
            Some("Segments.".to_owned())
        );
        assert_eq!(doc("use a;\n//! late\n"), None);
    }
}

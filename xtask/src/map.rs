//! `cargo xtask map`: the files of each crate with the first line of their module documentation.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Write as _},
    path::{Component, Path},
};

use anyhow::{Result, bail};

use crate::source::{self, SourceFile};

/// Print the map of the files: what each of them is for
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these crates, without `milena-`: `log`, `client`
    crates: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let mut packages: BTreeMap<String, Folder<'_>> = BTreeMap::new();
    let files = source::read_all(root)?;
    for file in files.iter().filter(|file| is_on_map(file)) {
        let name = file.package_name();
        if args.crates.is_empty() || args.crates.contains(&name) {
            packages.entry(name).or_default().add(file);
        }
    }
    if packages.is_empty() {
        bail!("there is no crate of this name");
    }
    let mut map = String::new();
    for (name, folder) in &packages {
        map.push_str(&format!("{name}\n"));
        folder.write(&mut map, 1);
        map.push('\n');
    }
    match std::io::stdout().write_all(map.as_bytes()) {
        // `cargo xtask map | head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Whether the map lists a file: all but tests, and the benches of the workspace `bench`.
pub(crate) fn is_on_map(file: &SourceFile) -> bool {
    !file.is_test || file.path.starts_with("bench/src")
}

#[derive(Default)]
struct Folder<'a> {
    folders: BTreeMap<String, Self>,
    files: BTreeMap<String, &'a str>,
}

impl<'a> Folder<'a> {
    fn add(&mut self, file: &'a SourceFile) {
        let inside = file.path.strip_prefix(&file.package).unwrap_or(&file.path);
        let mut folder = self;
        let parts: Vec<String> = inside
            .components()
            .filter(|part| *part != Component::Normal("src".as_ref()))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        let Some((name, folders)) = parts.split_last() else {
            return;
        };
        for part in folders {
            folder = folder.folders.entry(part.clone()).or_default();
        }
        folder
            .files
            .insert(name.clone(), file.module_doc().unwrap_or("(no module documentation)"));
    }

    /// Files first, `mod.rs` and `lib.rs` before all others, then folders.
    fn write(&self, map: &mut String, depth: usize) {
        let is_head = |name: &str| matches!(name, "mod.rs" | "lib.rs" | "main.rs");
        let (heads, rest): (Vec<_>, Vec<_>) = self.files.iter().partition(|(name, _)| is_head(name));
        let indent = "  ".repeat(depth);
        for (name, doc) in heads.into_iter().chain(rest) {
            let name = format!("{indent}{name}");
            map.push_str(&format!("{name:<NAME_WIDTH$} {doc}\n"));
        }
        for (name, folder) in &self.folders {
            map.push_str(&format!("{indent}{name}/\n"));
            folder.write(map, depth + 1);
        }
    }
}

/// Column in which the documentation begins.
const NAME_WIDTH: usize = 34;

//! Downloads that are fetched once and used by many runs, in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folder of this name in the cache; `fill` creates its content if it does not exist yet.
///
/// It is filled under a temporary name and renamed at once, so that a folder with the final name is complete.
pub(crate) fn folder(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = dir()?.join(name);
    if folder.exists() {
        return Ok(folder);
    }
    let gathered = folder.with_file_name(format!("{name}.partial-{}", std::process::id()));
    fs::create_dir_all(&gathered).with_context(|| format!("cannot create {}", gathered.display()))?;
    let filled = fill(&gathered);
    if filled.is_ok() && fs::rename(&gathered, &folder).is_ok() {
        return Ok(folder);
    }
    fs::remove_dir_all(&gathered)?;
    filled?;
    // The rename fails when another process was faster, which is fine: its content is the same.
    if !folder.exists() {
        bail!("cannot move {} to {}", gathered.display(), folder.display());
    }
    Ok(folder)
}

fn dir() -> Result<PathBuf> {
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir()) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => home.join(".cache"),
        _ => bail!("no folder for the cache: set HOME or XDG_CACHE_HOME"),
    };
    Ok(cache.join("milena"))
}

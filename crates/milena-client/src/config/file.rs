//! Configuration files.

use std::{fs, path::Path};

use milena_config::{ConfigError, ConfigErrors, ConfigMap};

/// Reads a file: TOML if its name ends in `.toml`, else Java's `.properties`.
pub fn read_file(path: impl AsRef<Path>) -> Result<ConfigMap, ConfigErrors> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: name.clone(),
        problem: error.to_string(),
    })?;
    ConfigMap::parse_file(&text, &name)
}

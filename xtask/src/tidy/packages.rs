//! Rules about the packages of others: licences, sources, bans and packages in two versions.
//!
//! Known vulnerabilities are not checked here, because their database is only on the network: `cargo deny check advisories`
//! or `cargo audit` does that.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Licences that permit the use in a program under Apache-2.0.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages that may not come in, not even through others, and why.
const BANNED: &[(&str, &str)] = &[
    ("native-tls", "TLS is rustls"),
    ("openssl", "TLS is rustls"),
    ("openssl-sys", "TLS is rustls"),
    ("rdkafka", "the client is native"),
    ("rdkafka-sys", "the client is native"),
];

/// Packages that others need in two versions. The list may only shrink. Those of `sqlx` go with its next version.
const TWICE: &[&str] = &[
    "base64",
    "block-buffer",
    "cpufeatures",
    "crypto-common",
    "digest",
    "getrandom",
    "hashbrown",
    "sha2",
    "syn",
    "synstructure",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// Absent for a package of this repository.
    source: Option<String>,
}

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let packages = read_metadata(root)?.packages;
    let mut offences = vec![];
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &packages {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("none");
        if !is_permitted(licence) {
            offences.push(format!(
                "{name}: licence `{licence}` is not in xtask/src/tidy/packages.rs"
            ));
        }
        if let Some(source) = package.source.as_deref().filter(|source| *source != REGISTRY) {
            offences.push(format!("{name}: comes from {source}, not from crates.io"));
        }
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == package.name) {
            offences.push(format!("{name}: is banned; {why}"));
        }
        versions.entry(&package.name).or_default().push(&package.version);
    }
    for (name, versions) in versions {
        match (versions.len() > 1, TWICE.contains(&name)) {
            (true, false) => offences.push(format!("{name}: in versions {}; use one", versions.join(" and "))),
            (false, true) => offences.push(format!("{name}: is in one version now; remove it from TWICE")),
            _ => {}
        }
    }
    Ok(offences)
}

/// Whether a licence expression can be met with permitted licences alone.
///
/// Parentheses only occur around alternatives that are joined by `AND`, which is all that is understood here.
fn is_permitted(expression: &str) -> bool {
    let is_alternative = |part: &str| LICENCES.contains(&part.trim());
    let is_met = |part: &str| {
        let part = part.trim().trim_start_matches('(').trim_end_matches(')');
        part.replace('/', " OR ").split(" OR ").any(is_alternative)
    };
    if expression.contains('(') {
        expression.split(" AND ").all(is_met)
    } else {
        let all_of = |part: &str| part.split(" AND ").all(is_alternative);
        expression.replace('/', " OR ").split(" OR ").any(all_of)
    }
}

/// Only the packages of this platform: the others may not have been fetched.
fn read_metadata(root: &Path) -> Result<Metadata> {
    let host = host()?;
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            &host,
        ])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("cannot parse the output of cargo metadata")
}

fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions() {
        for permitted in [
            "MIT",
            "MIT/Apache-2.0",
            "Unlicense OR MIT",
            "Apache-2.0 AND ISC",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_permitted(permitted), "{permitted}");
        }
        for refused in ["none", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0"] {
            assert!(!is_permitted(refused), "{refused}");
        }
    }
}

//! The dependency rules: which crates each crate may use, and which names it may not.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A crate of this repository and its permitted dependencies.
struct CrateRules {
    name: &'static str,
    /// The crates of ours it may use.
    crates: &'static [&'static str],
    /// The crates of others it may use, each explained in `docs/dependencies.md`; build and test dependencies are free.
    outside: &'static [&'static str],
    /// Names that its sources may not contain.
    never: &'static [&'static [&'static str]],
    /// The one file or folder that may contain them, because it does the IO of the crate.
    seam: &'static str,
    /// Whether it reads untrusted bytes, and therefore must have the lints against panics.
    reads_untrusted: bool,
}

/// The page with the reason for each dependency.
const REASONS: &str = "docs/dependencies.md";

/// No clock, no network, no threads, no async.
const NO_IO: &[&str] = &["net::", "thread::", "Instant", "SystemTime", "tokio", "async"];
/// Only data of connections, never connections.
const NO_SOCKETS: &[&str] = &["TcpStream", "TcpListener", "UdpSocket", "thread::", "tokio", "async"];
const NO_CLOCK: &[&str] = &["Instant", "SystemTime"];
const NO_FILES: &[&str] = &["fs::", "File"];
/// Nothing that differs from one run to the next.
const NO_RANDOMNESS: &[&str] = &["HashMap", "HashSet", "RandomState", "Mutex", "RwLock"];

/// A file may be the origin of a value, but is never opened.
const NO_FILES_OPENED: &[&str] = &["fs::", "File::"];
/// Settings come from the caller, never from the process around it.
const NO_ENVIRONMENT: &[&str] = &["env::"];

const CRATES: &[CrateRules] = &[
    CrateRules {
        name: "milena-invariant",
        crates: &[],
        outside: &["tracing"],
        never: &[NO_IO, NO_FILES],
        seam: "",
        reads_untrusted: false,
    },
    CrateRules {
        name: "milena-wire",
        crates: &[],
        outside: &[
            "base64",
            "bytes",
            "bytestring",
            "crc32c",
            "crc32fast",
            "flate2",
            "lz4_flex",
            "snap",
            "thiserror",
            "twox-hash",
            "zstd-safe",
        ],
        never: &[NO_IO, NO_FILES],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-config",
        crates: &[],
        outside: &["thiserror", "toml"],
        never: &[NO_IO, NO_FILES_OPENED, NO_RANDOMNESS, NO_ENVIRONMENT],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-security",
        crates: &["milena-config"],
        outside: &[
            "base64",
            "p12-keystore",
            "pkcs8",
            "rcgen",
            "regex",
            "ring",
            "rustls",
            "rustls-native-certs",
            "serde",
            "serde_json",
            "subtle",
            "thiserror",
            "tracing",
            "zeroize",
        ],
        never: &[NO_SOCKETS],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-machines",
        crates: &["milena-invariant", "milena-wire"],
        outside: &[
            "base64",
            "bytes",
            "bytestring",
            "hmac",
            "pbkdf2",
            "regex",
            "sha2",
            "subtle",
            "thiserror",
            "zeroize",
        ],
        never: &[NO_SOCKETS, NO_CLOCK, NO_FILES, NO_RANDOMNESS],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-log",
        crates: &["milena-invariant", "milena-wire"],
        outside: &["bytes", "crc32c", "rustix", "thiserror", "twox-hash"],
        never: &[NO_IO, NO_FILES],
        seam: "src/disk",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-sim",
        crates: &["milena-invariant", "milena-log", "milena-machines", "milena-wire"],
        outside: &["bytes", "bytestring", "clap", "regex"],
        never: &[NO_IO, NO_FILES, NO_RANDOMNESS],
        seam: "src/main.rs",
        reads_untrusted: false,
    },
    CrateRules {
        name: "milena-http",
        crates: &["milena-security"],
        outside: &["base64", "thiserror", "tokio", "tokio-rustls", "tracing"],
        never: &[NO_FILES],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-client",
        crates: &[
            "milena-config",
            "milena-http",
            "milena-invariant",
            "milena-machines",
            "milena-security",
            "milena-wire",
        ],
        outside: &[
            "base64",
            "bytes",
            "bytestring",
            "crc32fast",
            "futures-core",
            "regex",
            "ring",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tokio-rustls",
            "tracing",
            "zeroize",
        ],
        never: &[],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-app",
        crates: &[
            "milena-client",
            "milena-http",
            "milena-invariant",
            "milena-machines",
            "milena-security",
        ],
        outside: &[
            "base64",
            "bytes",
            "bytestring",
            "regex",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "toml",
            "tracing",
        ],
        never: &[],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-sql",
        crates: &["milena-app", "milena-client", "milena-invariant", "milena-machines"],
        outside: &[
            "bytes",
            "serde",
            "serde_json",
            "sqlx",
            "thiserror",
            "tokio",
            "tokio-postgres",
            "tracing",
            "uuid",
        ],
        never: &[],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena",
        crates: &["milena-app", "milena-client", "milena-sql"],
        outside: &[],
        never: &[NO_IO, NO_FILES],
        seam: "",
        reads_untrusted: false,
    },
    CrateRules {
        name: "milena-broker",
        crates: &[
            "milena-config",
            "milena-http",
            "milena-invariant",
            "milena-log",
            "milena-machines",
            "milena-security",
            "milena-wire",
        ],
        outside: &[
            "base64",
            "bytes",
            "bytestring",
            "crc32c",
            "regex",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
        ],
        never: &[],
        seam: "",
        reads_untrusted: true,
    },
    CrateRules {
        name: "milena-test",
        crates: &[
            "milena-app",
            "milena-broker",
            "milena-client",
            "milena-machines",
            "milena-security",
            "milena-wire",
        ],
        outside: &["bytes", "bytestring", "tempfile", "tokio"],
        never: &[],
        seam: "",
        reads_untrusted: false,
    },
    CrateRules {
        name: "milena-cli",
        crates: &[
            "milena-app",
            "milena-broker",
            "milena-client",
            "milena-http",
            "milena-security",
            "milena-sql",
            "milena-wire",
        ],
        outside: &[
            "anyhow",
            "bytes",
            "clap",
            "clap_complete",
            "clap_mangen",
            "regex",
            "rustix",
            "serde",
            "serde_json",
            "tokio",
            "toml",
            "tracing-subscriber",
        ],
        never: &[],
        seam: "",
        reads_untrusted: false,
    },
    CrateRules {
        name: "xtask",
        crates: &[],
        outside: &["anyhow", "clap", "serde", "serde_json"],
        never: &[],
        seam: "",
        reads_untrusted: false,
    },
];

/// The lints that keep hostile bytes from ending a process.
const PANIC_LINTS: &str = "deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Absent for normal dependencies.
    kind: Option<String>,
}

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let reasons = fs::read_to_string(root.join(REASONS)).with_context(|| format!("cannot read {REASONS}"))?;
    let mut offences = vec![];
    for package in read_metadata(root)?.packages {
        let Some(rules) = CRATES.iter().find(|rules| rules.name == package.name) else {
            offences.push(format!("{}: is not listed in xtask/src/tidy/walls.rs", package.name));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.is_none())
        {
            let name = dependency.name.as_str();
            if !rules.crates.contains(&name) && !rules.outside.contains(&name) {
                offences.push(format!("{}: may not depend on {name}", rules.name));
            }
        }
        for name in rules
            .outside
            .iter()
            .filter(|name| !reasons.contains(&format!("`{name}`")))
        {
            offences.push(format!("{REASONS}: does not say why {} uses `{name}`", rules.name));
        }
        check_lints(root, rules, &mut offences)?;
    }
    Ok(offences)
}

fn check_lints(root: &Path, rules: &CrateRules, offences: &mut Vec<String>) -> Result<()> {
    if rules.reads_untrusted {
        let library = root.join("crates").join(rules.name).join("src/lib.rs");
        // However rustfmt breaks the line.
        let text: String = fs::read_to_string(&library)?.split_whitespace().collect();
        let lints: String = PANIC_LINTS.split_whitespace().collect();
        if !text.contains(&lints) {
            offences.push(format!("{}: lacks `{PANIC_LINTS}`", library.display()));
        }
    }
    Ok(())
}

/// Forbidden names in a source of a crate. Tests in the file may use them.
pub(super) fn forbidden_names(path: &Path, text: &str) -> Vec<(usize, &'static str)> {
    let rules = CRATES
        .iter()
        .find(|rules| path.starts_with(format!("crates/{}/src", rules.name)));
    let in_seam = |rules: &&CrateRules| {
        !rules.seam.is_empty() && path.starts_with(format!("crates/{}/{}", rules.name, rules.seam))
    };
    let Some(rules) = rules.filter(|rules| !in_seam(rules)) else {
        return vec![];
    };
    let production = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = vec![];
    for (line, text) in production.lines().enumerate() {
        let code = text.split("//").next().unwrap_or_default();
        let named = rules.never.iter().copied().flatten().filter(|name| names(code, name));
        found.extend(named.map(|name| (line + 1, *name)));
    }
    found
}

/// Whether `code` contains `name` as a whole word.
fn names(code: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(place, _)| {
        let before = code.get(..place).and_then(|before| before.chars().next_back());
        let after = code.get(place + name.len()..).and_then(|after| after.chars().next());
        let ends_word = name.ends_with(':') || !after.is_some_and(is_word);
        !before.is_some_and(is_word) && ends_word
    })
}

fn read_metadata(root: &Path) -> Result<Metadata> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("cannot parse the output of cargo metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_the_wire_is_found_and_a_comment_about_one_is_not() {
        let text = "// no std::time::Instant here\nuse std::{fs::File, time::Instant};\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let found = |path: &str| forbidden_names(Path::new(path), text);
        assert_eq!(
            found("crates/milena-wire/src/frame.rs"),
            [(2, "Instant"), (2, "fs::"), (2, "File")]
        );
        assert_eq!(found("crates/milena-log/src/disk/real.rs"), []);
        assert_eq!(found("crates/milena-wire/tests/it/main.rs"), []);
        assert_eq!(found("xtask/src/main.rs"), []);
        assert!(!names("let offs::x = DiskFile::new();", "fs::"));
        assert!(!names("let x = DiskFile::new();", "File"));
    }
}

//! `cargo xtask client`: clients of other projects, with scripts that test a broker.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cache, root};

const SCRIPTS: &str = "crates/milena-cli/tests/outside/clients";
const PYTHON_HINT: &str = "on Debian or Ubuntu: apt-get install python3-venv";
const NODE_HINT: &str = "on Debian or Ubuntu: apt-get install nodejs npm";

/// Test a broker with a client of another project. Its packages are fetched once, into the user's cache.
#[derive(clap::Args)]
pub(crate) struct Args {
    client: Client,
    /// HOST:PORT of the broker.
    broker: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Client {
    /// librdkafka through Python; needs python3 with venv.
    Confluent,
    /// The client in JavaScript; needs node and npm.
    Kafkajs,
}

/// Becomes the script, so that its exit code and its output are the caller's.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = match args.client {
        Client::Confluent => confluent()?,
        Client::Kafkajs => kafkajs()?,
    };
    let error = command.arg(&args.broker).exec();
    Err(error).with_context(|| format!("cannot run {}", command.get_program().display()))
}

fn confluent() -> Result<Command> {
    let mut command = python_with_confluent()?;
    command.arg(root().join(SCRIPTS).join("confluent.py"));
    Ok(command)
}

/// A Python that has confluent-kafka, and with it librdkafka.
pub(crate) fn python_with_confluent() -> Result<Command> {
    let requirements = root().join(SCRIPTS).join("requirements.txt");
    let folder = cache::folder(&versioned("confluent", &requirements)?, |folder| {
        fetch(Command::new("python3").args(["-m", "venv"]).arg(folder), PYTHON_HINT)?;
        fetch(
            Command::new(python_of(folder))
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--only-binary=:all:",
                    "--requirement",
                ])
                .arg(&requirements),
            PYTHON_HINT,
        )
    })?;
    Ok(Command::new(python_of(&folder)))
}

/// The one program of the environment that still works after it was moved.
fn python_of(environment: &Path) -> PathBuf {
    environment.join("bin/python3")
}

fn kafkajs() -> Result<Command> {
    let scripts = root().join(SCRIPTS).join("kafkajs");
    let lock = scripts.join("package-lock.json");
    let folder = cache::folder(&versioned("kafkajs", &lock)?, |folder| {
        for name in ["package.json", "package-lock.json"] {
            fs::copy(scripts.join(name), folder.join(name))?;
        }
        fetch(
            Command::new("npm")
                .args(["ci", "--silent", "--ignore-scripts"])
                .current_dir(folder),
            NODE_HINT,
        )
    })?;
    let mut command = Command::new("node");
    command
        .arg(scripts.join("judge.js"))
        .env("NODE_PATH", folder.join("node_modules"));
    Ok(command)
}

/// Other versions get another folder, so that none is ever changed.
fn versioned(client: &str, versions: &Path) -> Result<String> {
    let text = fs::read(versions).with_context(|| format!("cannot read {}", versions.display()))?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Ok(format!("{client}-{:016x}", hasher.finish()))
}

fn fetch(command: &mut Command, hint: &str) -> Result<()> {
    let program = command.get_program().display().to_string();
    // Its output must not mix with that of the script.
    let output = command
        .output()
        .with_context(|| format!("cannot run `{program}`; {hint}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!(
            "{command:?}: {}\n{}{hint}",
            output.status,
            String::from_utf8_lossy(&said)
        );
    }
    Ok(())
}

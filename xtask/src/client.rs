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
const GO_HINT: &str = "on Debian or Ubuntu: apt-get install golang-go";

/// Test a broker with a client of another project. Its packages are fetched once, into the user's cache.
#[derive(clap::Args)]
pub(crate) struct Args {
    client: Client,
    /// Log in to a secured broker, in the ways that a file lists.
    #[arg(long)]
    secured: bool,
    /// HOST:PORT of the broker, or URL of the database; with --secured: `talk FILE`, `refused FILE` or `stay FILE SECONDS`.
    #[arg(required = true)]
    args: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Client {
    /// librdkafka through Python; needs python3 with venv.
    Confluent,
    /// The client in JavaScript; needs node and npm.
    Kafkajs,
    /// The client in Go, with --secured only; needs go.
    Franz,
    /// Not a client: a Python program that writes orders on its input to the outbox of a database, with psycopg.
    Psycopg,
}

/// Becomes the script, so that its exit code and its output are the caller's.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = match (args.client, args.secured) {
        (Client::Confluent, false) => confluent("confluent.py")?,
        (Client::Confluent, true) => confluent("secured.py")?,
        (Client::Kafkajs, false) => kafkajs("judge.js")?,
        (Client::Kafkajs, true) => kafkajs("secured.js")?,
        (Client::Franz, true) => franz()?,
        (Client::Psycopg, false) => psycopg()?,
        (Client::Psycopg, true) => bail!("the program with psycopg does not talk to a broker"),
        (Client::Franz, false) => bail!("franz-go has no script for open brokers; use --secured"),
    };
    let error = command.args(&args.args).exec();
    Err(error).with_context(|| format!("cannot run {}", command.get_program().display()))
}

fn confluent(script: &str) -> Result<Command> {
    let mut command = python_with_confluent()?;
    command.arg(root().join(SCRIPTS).join(script));
    Ok(command)
}

fn psycopg() -> Result<Command> {
    let mut command = python_with("psycopg", "psycopg.txt")?;
    command.arg(root().join("crates/milena/examples/outbox_writer.py"));
    Ok(command)
}

/// A Python that has confluent-kafka, and with it librdkafka.
pub(crate) fn python_with_confluent() -> Result<Command> {
    python_with("confluent", "requirements.txt")
}

/// A Python with the packages of a file.
fn python_with(name: &str, requirements: &str) -> Result<Command> {
    let requirements = root().join(SCRIPTS).join(requirements);
    let folder = cache::folder(&versioned(name, &requirements)?, |folder| {
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

fn kafkajs(script: &str) -> Result<Command> {
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
        .arg(scripts.join(script))
        .env("NODE_PATH", folder.join("node_modules"));
    Ok(command)
}

/// The program in Go, compiled once for each version of its source.
fn franz() -> Result<Command> {
    let source = root().join(SCRIPTS).join("franz");
    let files = ["main.go", "go.sum"].map(|name| source.join(name));
    let folder = cache::folder(&versioned_by("franz", &files)?, |folder| {
        fetch(
            Command::new("go")
                .args(["build", "-buildvcs=false", "-o"])
                .arg(folder.join("secured"))
                .current_dir(&source),
            GO_HINT,
        )
    })?;
    Ok(Command::new(folder.join("secured")))
}

/// Other versions get another folder, so that none is ever changed.
fn versioned(client: &str, versions: &Path) -> Result<String> {
    versioned_by(client, &[versions.to_owned()])
}

fn versioned_by(client: &str, files: &[PathBuf]) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        text.hash(&mut hasher);
    }
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

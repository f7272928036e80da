//! `cargo xtask golden`: outputs and decisions of Kafka's own classes, as test vectors of `milena-wire`,
//! `milena-broker`, `milena-client` and `milena-machines`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{client, kafka};

/// Write the golden vectors of milena-wire, the configs of milena-broker and milena-client and the assignments of
/// milena-machines with Kafka's own classes, and the choices of librdkafka's partitioners with librdkafka. Needs a JDK 17,
/// Maven, and Python 3 with venv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the committed vectors differ from Kafka's output.
    #[arg(long)]
    check: bool,
    /// Let Kafka read record batches instead: lines `case <name> <hex>`; prints the records of each.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    read_batches: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wire = crate::root().join("crates/milena-wire");
    let classes = std::env::temp_dir().join(format!("milena-golden-{}", std::process::id()));
    let result = compile(&wire.join("golden"), &classes).and_then(|()| run_java(args, &wire, &classes));
    // Removed whether or not the run succeeded; nothing in there is worth keeping.
    fs::remove_dir_all(&classes).ok();
    result?;
    match args.read_batches {
        Some(_) => Ok(()),
        None => {
            write_output(args.check, "milena-broker", "Configs.java", "configs.txt")?;
            write_output(args.check, "milena-client", "ClientConfigs.java", "configs.txt")?;
            write_output(args.check, "milena-client", "Serialized.java", "serialized.txt")?;
            write_output(
                args.check,
                "milena-client",
                "ProducerMetrics.java",
                "producer_metrics.txt",
            )?;
            write_partitions(args.check)?;
            write_output(args.check, "milena-machines", "Assignors.java", "assignors.txt")
        }
    }
}

/// Stores the output of a program of one file.
fn write_output(check: bool, package: &str, program: &str, file: &str) -> Result<()> {
    let package = crate::root().join("crates").join(package);
    let mut java = Command::new("java");
    java.args(["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp"])
        .arg(kafka::classpath(kafka::Jars::Kafka)?)
        .arg(package.join("golden").join(program));
    keep_output(check, &mut java, &package.join("tests/golden").join(file))
}

/// The partitions that Kafka's and librdkafka's partitioners choose.
fn write_partitions(check: bool) -> Result<()> {
    let package = crate::root().join("crates/milena-client");
    let classes = std::env::temp_dir().join(format!("milena-partitions-{}", std::process::id()));
    let kafkas = compile(&package.join("golden/partitions"), &classes).and_then(|()| {
        let mut java = Command::new("java");
        java.arg("-cp")
            .arg(format!(
                "{}:{}",
                classes.display(),
                kafka::classpath(kafka::Jars::Kafka)?
            ))
            .arg("org.apache.kafka.clients.producer.internals.PartitionVectors");
        keep_output(check, &mut java, &package.join("tests/golden/partitions.txt"))
    });
    // Removed whether or not the run succeeded; nothing in there is worth keeping.
    fs::remove_dir_all(&classes).ok();
    kafkas?;
    let mut python = client::python_with_confluent()?;
    python.arg(package.join("golden/librdkafka_partitions.py"));
    keep_output(
        check,
        &mut python,
        &package.join("tests/golden/librdkafka_partitions.txt"),
    )
}

/// Writes the output of a program to a file, or compares it.
fn keep_output(check: bool, program: &mut Command, file: &Path) -> Result<()> {
    let name = program.get_program().display().to_string();
    let output = program.output().with_context(|| format!("cannot run `{name}`"))?;
    if !output.status.success() {
        bail!("{program:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    if !check {
        return fs::write(file, &output.stdout).with_context(|| format!("cannot write {}", file.display()));
    }
    let committed = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if committed != output.stdout {
        bail!(
            "{} differs from the output of {name}; run `cargo xtask golden`",
            file.display()
        );
    }
    Ok(())
}

fn compile(sources: &Path, classes: &Path) -> Result<()> {
    let mut javac = Command::new("javac");
    // Kafka's jars carry annotations of libraries that are not there; the warnings about that are useless.
    javac.args([
        "-nowarn",
        "-Xlint:-classfile",
        "-proc:none",
        "-encoding",
        "UTF-8",
        "--release",
        "17",
    ]);
    javac
        .arg("-cp")
        .arg(kafka::classpath(kafka::Jars::Kafka)?)
        .arg("-d")
        .arg(classes);
    for entry in fs::read_dir(sources).with_context(|| format!("cannot read {}", sources.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "java") {
            javac.arg(path);
        }
    }
    let output = javac
        .output()
        .context("cannot run `javac`; on Debian or Ubuntu: apt-get install openjdk-17-jdk-headless")?;
    if !output.status.success() {
        bail!(
            "the Java code in {} does not compile:\n{}",
            sources.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn run_java(args: &Args, wire: &Path, classes: &Path) -> Result<()> {
    let mut java = Command::new("java");
    java.arg("-cp")
        .arg(format!(
            "{}:{}",
            classes.display(),
            kafka::classpath(kafka::Jars::Kafka)?
        ))
        .arg("Golden");
    if let Some(file) = &args.read_batches {
        java.arg("read-batches").arg(file);
    } else {
        java.arg(if args.check { "check" } else { "write" });
        java.arg(wire.join("definitions")).arg(wire.join("tests/golden"));
    }
    let status = java.status().context("cannot run `java`")?;
    if !status.success() {
        bail!("cargo xtask golden failed; the reason is above");
    }
    Ok(())
}

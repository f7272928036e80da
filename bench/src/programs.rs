//! The clients that are not written in Rust, built once for a run.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::peers::{root, xtask};

pub struct Programs {
    dir: TempDir,
    classpath: String,
}

impl Programs {
    pub fn build(with_franz: bool, with_java: bool) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut classpath = String::new();
        if with_franz {
            build_franz(&dir.path().join("franz"))?;
        }
        if with_java {
            classpath = xtask(&["kafka", "classpath"])?.trim().to_owned();
            compile(&["Consume", "Produce"], &classpath, dir.path())?;
        }
        Ok(Self { dir, classpath })
    }

    /// Only Confluent's Parallel Consumer, with the version of Kafka's client that it was made for.
    pub fn build_parallel() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let classpath = xtask(&["kafka", "classpath", "--jars", "parallel"])?.trim().to_owned();
        compile(&["Parallel"], &classpath, dir.path())?;
        Ok(Self { dir, classpath })
    }

    /// Only Spring's request-reply.
    pub fn build_spring() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let classpath = xtask(&["kafka", "classpath", "--jars", "spring"])?.trim().to_owned();
        compile(&["Requests"], &classpath, dir.path())?;
        Ok(Self { dir, classpath })
    }

    /// The Go program with its subcommand.
    pub fn franz(&self, word: &str) -> Command {
        let mut command = Command::new(self.dir.path().join("franz"));
        command.arg(word);
        command
    }

    /// A Java class with the settings that Kafka's own scripts use for its tools.
    pub fn java(&self, class: &str) -> Result<Command> {
        let mut command = Command::new("java");
        let classes = self
            .dir
            .path()
            .to_str()
            .context("the temporary directory is not UTF-8")?;
        command.args(["-Xmx512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]);
        command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
        command.args(["-cp", &format!("{classes}:{}", self.classpath), class]);
        Ok(command)
    }
}

fn compile(classes: &[&str], classpath: &str, to: &Path) -> Result<()> {
    let mut javac = Command::new("javac");
    javac.args(["-cp", classpath, "-d"]).arg(to);
    javac.args(
        classes
            .iter()
            .map(|class| root().join(format!("bench/java/{class}.java"))),
    );
    let built = javac.status().context("Java's clients need a JDK of Java 17")?;
    ensure!(built.success(), "javac failed");
    Ok(())
}

/// Builds the program in Go that produces and consumes.
pub fn build_franz(program: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(program).arg(".");
    let built = go.current_dir(root().join("bench/franz")).stdin(Stdio::null()).status();
    ensure!(built.context("this needs Go")?.success(), "go build failed");
    Ok(())
}

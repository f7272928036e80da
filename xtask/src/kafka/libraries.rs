//! Kafka's jars, fetched once by Maven into the user's cache, and the Java that runs them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache;

const VERSION: &str = "4.3.1";
/// Its clients begin transactions in the way before KIP-890.
const OLD_VERSION: &str = "3.6.2";
/// Confluent's Parallel Consumer, which is measured beside our runtime.
const PARALLEL_VERSION: &str = "0.5.3.3";
/// Spring for Apache Kafka, whose request-reply is tested with ours.
const SPRING_VERSION: &str = "4.1.1";
const JAVA_VERSION_MIN: u32 = 17;
const INSTALL_HINT: &str = "on Debian or Ubuntu: apt-get install openjdk-17-jdk-headless maven";

/// Jars that are fetched and used together.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Jars {
    /// Brokers, tools and clients of Kafka 4.3.1.
    Kafka,
    /// Kafka Streams 4.3.1.
    Streams,
    /// Clients and tools of Kafka 3.6.2.
    Old,
    /// Confluent's Parallel Consumer 0.5.3.3 with the client that it was made for.
    Parallel,
    /// Spring for Apache Kafka 4.1.1.
    Spring,
}

impl Jars {
    fn folder(self) -> String {
        match self {
            Self::Kafka => format!("kafka-{VERSION}"),
            Self::Streams => format!("kafka-streams-{VERSION}"),
            Self::Old => format!("kafka-tools-{OLD_VERSION}"),
            Self::Parallel => format!("parallel-consumer-{PARALLEL_VERSION}"),
            Self::Spring => format!("spring-kafka-{SPRING_VERSION}"),
        }
    }

    /// Group, names and version of the artifacts.
    fn artifacts(self) -> (&'static str, &'static [&'static str], &'static str) {
        const KAFKA: &str = "org.apache.kafka";
        match self {
            Self::Kafka => (KAFKA, &["kafka_2.13", "kafka-tools", "kafka-clients"], VERSION),
            Self::Streams => (KAFKA, &["kafka-streams"], VERSION),
            Self::Old => (KAFKA, &["kafka-tools"], OLD_VERSION),
            Self::Parallel => (
                "io.confluent.parallelconsumer",
                &["parallel-consumer-core"],
                PARALLEL_VERSION,
            ),
            Self::Spring => ("org.springframework.kafka", &["spring-kafka"], SPRING_VERSION),
        }
    }

    /// Loggers of one generation do not serve the other.
    fn logger_version(self) -> &'static str {
        match self {
            Self::Parallel | Self::Spring => "2.0.13",
            _ => "1.7.36",
        }
    }
}

/// The class path with these jars; fetches them when they are not in the cache yet.
pub(crate) fn classpath(jars: Jars) -> Result<String> {
    let libraries = cache::folder(&jars.folder(), |directory| fetch_into(jars, directory))?;
    let Some(path) = libraries.to_str() else {
        bail!(
            "the cache directory {} is not UTF-8; set XDG_CACHE_HOME to one that is",
            libraries.display()
        );
    };
    Ok(format!("{path}/*"))
}

/// A `java` command with these jars on its class path, logging from this level on.
pub(super) fn java(jars: Jars, log_level: LogLevel) -> Result<Command> {
    check_java()?;
    let mut command = Command::new("java");
    let level = match log_level {
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
    };
    command.arg(format!("-Dorg.slf4j.simpleLogger.defaultLogLevel={level}"));
    command.args([
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    ]);
    command.arg("-cp").arg(classpath(jars)?);
    Ok(command)
}

pub(super) enum LogLevel {
    /// For brokers, whose output is their log.
    Info,
    /// For tools: people read their results.
    Warn,
}

fn fetch_into(jars: Jars, directory: &Path) -> Result<()> {
    let name = jars.folder();
    eprintln!("fetching {name} with Maven, once");
    let pom = directory.join("pom.xml");
    fs::write(&pom, pom_text(jars))?;
    let status = Command::new("mvn")
        .args([
            "--quiet",
            "--batch-mode",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
        ])
        .arg("--file")
        .arg(&pom)
        .arg(format!("-DoutputDirectory={}", directory.display()))
        // Even a quiet Maven prints, and the standard output is parsed by callers.
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot run `mvn`, which fetches Kafka's jars; {INSTALL_HINT}"))?;
    if !status.success() {
        bail!("Maven could not fetch {name} ({status}); its messages are above");
    }
    Ok(())
}

fn pom_text(jars: Jars) -> String {
    let (group, artifacts, version) = jars.artifacts();
    let dependencies: String = artifacts
        .iter()
        .map(|artifact| (group, *artifact, version))
        // Kafka brings no logger; this one writes to the standard error.
        .chain([("org.slf4j", "slf4j-simple", jars.logger_version())])
        .map(|(group, artifact, version)| {
            format!(
                "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
            )
        })
        .collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n<modelVersion>4.0.0</modelVersion>\n\
         <groupId>milena</groupId><artifactId>kafka-libraries</artifactId><version>1</version>\n\
         <dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )
}

fn check_java() -> Result<()> {
    let output = Command::new("java")
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run `java`, which runs Kafka; {INSTALL_HINT}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match java_major_version(&text) {
        Some(major) if major >= JAVA_VERSION_MIN => Ok(()),
        _ => bail!("Kafka {VERSION} needs Java {JAVA_VERSION_MIN} or newer, found: {text}{INSTALL_HINT}"),
    }
}

/// Reads 17 from a first line such as `openjdk 17.0.15 2025-04-15`.
fn java_major_version(text: &str) -> Option<u32> {
    let version = text.split_whitespace().nth(1)?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::java_major_version;

    #[test]
    fn reads_the_major_version_of_java() {
        assert_eq!(
            java_major_version("openjdk 17.0.15 2025-04-15\nOpenJDK Runtime"),
            Some(17)
        );
        assert_eq!(java_major_version("openjdk 25-ea 2025-09-16"), Some(25));
        assert_eq!(java_major_version(""), None);
    }
}

//! The brokers of one directory, together.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};

use super::broker::Broker;
use super::certificates;
use super::config::Settings;
use super::libraries::{Jars, LogLevel, java};

/// All brokers of a cluster must be formatted with one id; which one does not matter on loopback.
const CLUSTER_ID: &str = "MilenaTestsKafkaAAAAAA";
const BROKER_DIR_PREFIX: &str = "broker-";

pub(super) struct Cluster {
    dir: PathBuf,
}

impl Cluster {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Starts every broker and returns the bootstrap list once all of them serve.
    pub(super) fn up(&self, settings: &Settings) -> Result<String> {
        let brokers: Vec<Broker> = settings.broker_numbers().map(|number| self.broker(number)).collect();
        self.prepare(&brokers, settings)?;
        // All are checked before any starts, so that a refusal leaves no half-started cluster.
        brokers.iter().try_for_each(Broker::check_can_start)?;
        let starting = brokers.into_iter().map(Broker::start).collect::<Result<Vec<_>>>()?;
        let mut addresses = Vec::new();
        for broker in starting {
            addresses.push(broker.wait_until_serving()?.to_string());
        }
        Ok(addresses.join(","))
    }

    pub(super) fn down(&self) -> Result<()> {
        let mut stopping = Vec::new();
        for broker in self.existing_brokers()? {
            if broker.ask_to_stop()? {
                stopping.push(broker);
            }
        }
        stopping.iter().try_for_each(Broker::wait_until_gone)
    }

    /// Deletes the files of the brokers and nothing else, in case the directory is shared.
    pub(super) fn wipe(&self) -> Result<()> {
        for broker in self.existing_brokers()? {
            broker.kill()?;
            fs::remove_dir_all(broker.dir()).with_context(|| format!("cannot delete {}", broker.dir().display()))?;
        }
        // These fail when the directory holds something else or never was, and both are fine.
        fs::remove_dir_all(self.tls_dir()).ok();
        fs::remove_dir(&self.dir).ok();
        Ok(())
    }

    pub(super) fn existing_broker(&self, number: u16) -> Result<Broker> {
        let broker = self.broker(number);
        if !broker.dir().exists() {
            bail!(
                "no broker {number} in {}; `cargo xtask kafka up` makes brokers",
                self.dir.display()
            );
        }
        Ok(broker)
    }

    fn broker(&self, number: u16) -> Broker {
        Broker::new(number, self.dir.join(format!("{BROKER_DIR_PREFIX}{number}")))
    }

    fn tls_dir(&self) -> PathBuf {
        self.dir.join("tls")
    }

    fn existing_brokers(&self) -> Result<Vec<Broker>> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Ok(Vec::new());
        };
        let mut brokers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(BROKER_DIR_PREFIX)?.parse().ok());
            brokers.extend(number.map(|number| self.broker(number)));
        }
        Ok(brokers)
    }

    /// Writes the configuration and formats the storage of brokers that have none.
    fn prepare(&self, brokers: &[Broker], settings: &Settings) -> Result<()> {
        if settings.is_secured() {
            certificates::make(&self.tls_dir())?;
        }
        let mut formats = Vec::new();
        for (broker, number) in brokers.iter().zip(settings.broker_numbers()) {
            let properties = settings.properties(number, &broker.data_dir(), &self.tls_dir());
            if broker.is_formatted() {
                self.refuse_other_settings(broker, &properties)?;
            } else {
                fs::create_dir_all(broker.dir())
                    .with_context(|| format!("cannot create {}", broker.dir().display()))?;
                fs::write(broker.properties_path(), properties)?;
                formats.push((broker, spawn_format(broker, settings)?));
            }
        }
        for (broker, mut format) in formats {
            if !format.wait()?.success() {
                let output = fs::read_to_string(format_output_path(broker)).unwrap_or_default();
                bail!(
                    "Kafka cannot format the storage of {}:\n{output}",
                    broker.dir().display()
                );
            }
        }
        Ok(())
    }

    /// Storage remembers its cluster and its users, so a cluster keeps the settings it was made with.
    fn refuse_other_settings(&self, broker: &Broker, properties: &str) -> Result<()> {
        if fs::read_to_string(broker.properties_path())? != properties {
            bail!(
                "{} holds a cluster made with other options; give the same ones, or another --dir, \
                 or delete it with `cargo xtask kafka wipe`",
                self.dir.display()
            );
        }
        Ok(())
    }
}

fn format_output_path(broker: &Broker) -> PathBuf {
    broker.dir().join("format-output")
}

fn spawn_format(broker: &Broker, settings: &Settings) -> Result<Child> {
    let output = File::create(format_output_path(broker))?;
    let format = java(Jars::Kafka, LogLevel::Warn)?
        .args([
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            CLUSTER_ID,
            "--config",
        ])
        .arg(broker.properties_path())
        .args(settings.format_args())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    Ok(format)
}

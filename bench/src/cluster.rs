//! Several brokers of Apache Kafka at once.

use std::fs;

use anyhow::Result;
use tempfile::TempDir;

use crate::peers::{kill, xtask};

const PORT: &str = "19692";

pub struct Cluster {
    addresses: Vec<String>,
    dir: TempDir,
}

impl Cluster {
    pub fn start(brokers: usize) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut cluster = Self { addresses: vec![], dir };
        let brokers = brokers.to_string();
        let words = [
            "kafka",
            "up",
            "--brokers",
            &brokers,
            "--port",
            PORT,
            "--dir",
            &cluster.dir_text(),
        ];
        cluster.addresses = xtask(&words)?.trim().split(',').map(str::to_owned).collect();
        Ok(cluster)
    }

    pub fn addresses(&self) -> String {
        self.addresses.join(",")
    }

    /// Address of a broker, by its number from 1 on.
    pub fn address(&self, broker: usize) -> &str {
        &self.addresses[broker - 1]
    }

    /// Stops a broker from responding until the result is dropped. Its connections stay open.
    pub fn stop_answering(&self, broker: usize) -> Result<Stopped> {
        let path = self.dir.path().join(format!("broker-{broker}/pid"));
        let pid = fs::read_to_string(path)?.trim().parse()?;
        kill("STOP", pid)?;
        Ok(Stopped { pid })
    }

    fn dir_text(&self) -> String {
        self.dir.path().to_string_lossy().into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = xtask(&["kafka", "wipe", "--dir", &self.dir_text()]);
    }
}

pub struct Stopped {
    pid: u32,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill("CONT", self.pid);
    }
}

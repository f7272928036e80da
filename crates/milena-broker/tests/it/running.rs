//! A broker in this process.

use std::{path::Path, sync::Arc};

use milena_broker::{Broker, StartError, config::RawConfig};
use milena_log::disk::{Disk, RealDisk};
use tokio::runtime::Runtime;

use crate::client::Client;

pub struct Running {
    runtime: Runtime,
    broker: Option<Broker>,
    pub address: String,
}

/// Starts a broker on a port of its own.
pub fn start(dir: &Path, settings: &[(&str, &str)]) -> Running {
    try_start(dir, settings).unwrap()
}

pub fn try_start(dir: &Path, settings: &[(&str, &str)]) -> Result<Running, StartError> {
    try_start_on(Arc::new(RealDisk), dir, settings)
}

/// Starts a broker on a disk that may misbehave.
pub fn start_on(disk: Arc<dyn Disk>, settings: &[(&str, &str)]) -> Running {
    try_start_on(disk, Path::new("/data"), settings).unwrap()
}

fn try_start_on(disk: Arc<dyn Disk>, dir: &Path, settings: &[(&str, &str)]) -> Result<Running, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut config = RawConfig::new();
    config.insert("listeners".to_owned(), "PLAINTEXT://127.0.0.1:0".to_owned());
    config.insert("log.dirs".to_owned(), dir.to_str().unwrap().to_owned());
    config.extend(
        settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let broker = runtime.block_on(Broker::start_on(disk, config))?;
    let address = broker.address().to_string();
    Ok(Running {
        runtime,
        broker: Some(broker),
        address,
    })
}

impl Running {
    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    pub fn shutdown(mut self) {
        let broker = self.broker.take().unwrap();
        self.runtime.block_on(broker.shutdown());
    }

    /// As the end of the process would: nothing is closed.
    pub fn kill(mut self) {
        drop(self.broker.take());
        drop(self.runtime);
    }
}

//! A broker in this process.

use std::{net::SocketAddr, path::Path, sync::Arc};

use milena_broker::{Broker, Options, StartError, Throttle, config::RawConfig};
use milena_log::disk::Disk;
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
    try_start_with(Options::default(), dir, settings)
}

/// Starts a broker on a disk that may misbehave.
pub fn start_on(disk: Arc<dyn Disk>, settings: &[(&str, &str)]) -> Running {
    let options = Options {
        disk,
        ..Options::default()
    };
    try_start_with(options, Path::new("/data"), settings).unwrap()
}

/// Like [`start_on`], for a start that may fail.
pub fn try_start_on(disk: Arc<dyn Disk>, settings: &[(&str, &str)]) -> Result<Running, StartError> {
    let options = Options {
        disk,
        ..Options::default()
    };
    try_start_with(options, Path::new("/data"), settings)
}

/// Starts a broker that throttles clients.
pub fn start_throttled(throttle: Arc<dyn Throttle>, dir: &Path) -> Running {
    let options = Options {
        throttle: Some(throttle),
        ..Options::default()
    };
    try_start_with(options, dir, &[]).unwrap()
}

/// Starts a broker with parts of an embedding program.
pub fn start_with(options: Options, dir: &Path) -> Running {
    try_start_with(options, dir, &[]).unwrap()
}

/// Starts a broker with parts of an embedding program, which may fail.
pub fn try_start_with(options: Options, dir: &Path, settings: &[(&str, &str)]) -> Result<Running, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut config = local(dir);
    config.extend(raw(settings));
    let broker = runtime.block_on(Broker::start_with(options, config))?;
    let address = broker.address().to_string();
    Ok(Running {
        runtime,
        broker: Some(broker),
        address,
    })
}

pub fn raw(pairs: &[(&str, &str)]) -> RawConfig {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The settings of a broker in this directory, on a port of its own.
pub fn local(dir: &Path) -> RawConfig {
    raw(&[
        ("listeners", "PLAINTEXT://127.0.0.1:0"),
        ("log.dirs", dir.to_str().unwrap()),
    ])
}

impl Running {
    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    /// The address of a listener.
    pub fn listener(&self, name: &str) -> SocketAddr {
        let broker = self.broker.as_ref().unwrap();
        broker.listener_address(name).expect("a listener of this name")
    }

    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.broker.as_ref()?.metrics_address()
    }

    pub fn shutdown(mut self) {
        let broker = self.broker.take().unwrap();
        self.runtime.block_on(broker.shutdown());
    }

    /// Ends the broker like a crash: nothing is closed.
    pub fn kill(mut self) {
        drop(self.broker.take());
        drop(self.runtime);
    }
}

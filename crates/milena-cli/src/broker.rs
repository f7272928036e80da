//! `milena broker`: runs a broker until SIGINT or SIGTERM.

use std::{
    fs,
    io::ErrorKind,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, anyhow, bail};
use milena_broker::{
    Broker, DataDirError, Options, StartError, TelemetryPush, TelemetryReceiver,
    config::{ConfigMap, Origin},
};

use crate::{log_levels::LogControl, secret, signals::Signals};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "milena-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    serving: ServingArguments,
}

/// The options that `milena broker` and `milena up` share.
#[derive(clap::Args)]
pub(crate) struct ServingArguments {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", value_parser = address)]
    listen: String,
    /// Address advertised to clients, if it differs from --listen
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    advertise: Option<String>,
    /// Serve clients that do not log in on addresses that other machines can reach
    #[arg(long)]
    allow_unauthenticated: bool,
    /// Durability of acknowledged records: memory (none), os (they survive a process crash) or fsync (a power failure)
    /// [default: os]
    #[arg(long, value_name = "MODE", value_parser = ["memory", "os", "fsync"], hide_possible_values = true)]
    durability: Option<String>,
    /// Address of the metrics endpoint, which serves /metrics for Prometheus
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    metrics: Option<String>,
    /// Broker configs under Kafka's names, from a .properties or .toml file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One broker config under Kafka's name; may be repeated, overrides the file. Secrets only as references, such as
    /// 'ssl.key.password=${env:NAME}'
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

fn address(text: &str) -> Result<String, String> {
    let wrong = |hint: &str| Err(format!("expected HOST:PORT, as in 127.0.0.1:9092{hint}"));
    if text.parse::<u16>().is_ok() {
        return wrong(&format!("; did you mean 127.0.0.1:{text}?"));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => wrong(""),
    }
}

pub(crate) fn run(arguments: &Arguments, levels: LogControl) -> Result<()> {
    serve(&arguments.serving, &arguments.data_dir, levels, |_| ())
}

/// Runs a broker until a signal arrives. Calls `listening` with its address once clients can connect.
pub(crate) fn serve(
    arguments: &ServingArguments,
    data_dir: &Path,
    levels: LogControl,
    listening: impl Fn(&str),
) -> Result<()> {
    let options = Options {
        log_levels: Some(Arc::new(levels)),
        telemetry: Some(Arc::new(LoggedTelemetry)),
        metrics: arguments.metrics.clone(),
        ..Options::default()
    };
    let settings = arguments.settings(data_dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let broker = Broker::start_with(options, settings).await.map_err(explain)?;
        let address = broker.advertised();
        // Scripts wait for this line and read the address from it.
        println!("BOOTSTRAP={address}");
        listening(&address);
        signals.received().await;
        broker.shutdown().await;
        Ok(())
    })
}

impl ServingArguments {
    /// The broker configs: flags, overridden by the file, overridden by `-X`.
    fn settings(&self, data_dir: &Path) -> Result<ConfigMap> {
        let mut settings = ConfigMap::new();
        let mut set = |flag: &str, key: &str, value: String| {
            settings.set_from(key, value, Origin::Named(flag.into()));
        };
        set("--listen", "listeners", format!("PLAINTEXT://{}", self.listen));
        set("--data-dir", "log.dirs", data_dir.to_string_lossy().into_owned());
        if let Some(address) = &self.advertise {
            set("--advertise", "advertised.listeners", format!("PLAINTEXT://{address}"));
        }
        if self.allow_unauthenticated {
            set(
                "--allow-unauthenticated",
                "milena.allow.unauthenticated",
                "true".to_owned(),
            );
        }
        if let Some(durability) = &self.durability {
            set("--durability", "milena.durability", durability.clone());
        }
        if let Some(file) = &self.config {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            settings.merge(ConfigMap::parse_file(&text, &file.display().to_string())?);
        }
        secret::check_arguments(&self.settings, "--config")?;
        settings.merge(ConfigMap::parse_arguments(&self.settings, "-X")?);
        check_advertised(&settings)?;
        Ok(settings)
    }
}

/// Drops client metrics after the broker has logged the push at DEBUG.
#[derive(Debug)]
struct LoggedTelemetry;

impl TelemetryReceiver for LoggedTelemetry {
    fn receive(&self, _: &TelemetryPush<'_>) {}
}

/// Refuses a wildcard listener without an advertised address: clients need an address that they can reach.
fn check_advertised(settings: &ConfigMap) -> Result<()> {
    if settings.get("advertised.listeners").is_some() {
        return Ok(());
    }
    let listener = settings.get("listeners").unwrap_or_default();
    let (_, address) = listener.split_once("://").unwrap_or_default();
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    if host.parse().is_ok_and(|address: IpAddr| address.is_unspecified()) {
        bail!(
            "{address} listens on every address of this machine; name the one that clients connect to with --advertise \
             HOST:PORT, such as --advertise 192.168.1.10:{port}"
        );
    }
    Ok(())
}

/// Adds advice to an error at startup.
fn explain(error: StartError) -> anyhow::Error {
    match error {
        StartError::Listen { address, source } if source.kind() == ErrorKind::AddrInUse => anyhow!(
            "cannot listen on {address}: the address is already in use; is Milena already up? Stop that one, or choose \
             another port with --listen HOST:PORT"
        ),
        StartError::DataDir(DataDirError::InUse { path }) => anyhow!(
            "{} is used by another broker; is Milena already up? Stop that one, or choose another directory with --data-dir \
             DIR",
            path.display()
        ),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for right in ["127.0.0.1:9092", "localhost:0", "[::1]:9092"] {
            assert_eq!(address(right), Ok(right.to_owned()));
        }
        for wrong in ["", "localhost", ":9092", "localhost:", "localhost:99999", "::"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(address("43094").is_err_and(|error| error.contains("did you mean 127.0.0.1:43094?")));
    }
}

//! `milena broker`: a broker until a signal ends it.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use milena_broker::{
    Broker, Options, TelemetryPush, TelemetryReceiver,
    config::{RawConfig, parse_arguments, parse_properties, parse_toml},
};

use crate::{log_levels, signals::Signals};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    listen: String,
    /// Where to keep records
    #[arg(long, value_name = "DIR", default_value = "milena-data")]
    data_dir: PathBuf,
    /// What an acknowledgement promises: memory (nothing), os (survives a crash of the process), fsync (and a power cut)
    #[arg(long, value_name = "MODE", value_parser = ["memory", "os", "fsync"])]
    durability: Option<String>,
    /// Settings under Kafka's names, from a .properties or a .toml file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting under Kafka's name; may be repeated, and wins over the file
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// `milena up`: the broker with nothing to decide.
#[derive(clap::Args)]
pub(crate) struct UpArguments {
    /// Where to listen; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    listen: String,
}

pub(crate) fn up(arguments: UpArguments) -> Result<()> {
    let data_dir = default_data_dir().context("no place for records: set HOME or XDG_DATA_HOME")?;
    eprintln!("records are kept in {}", data_dir.display());
    eprintln!("try: echo hello | kcat -b {} -P -t letters", arguments.listen);
    eprintln!("and: milena consume -b {} -t letters --exit-at-end", arguments.listen);
    run(Arguments {
        listen: arguments.listen,
        data_dir,
        durability: None,
        config: None,
        settings: vec![],
    })
}

/// Where programs of a user keep their data.
fn default_data_dir() -> Option<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    let data = data.or_else(|| Some(std::env::home_dir()?.join(".local/share")))?;
    Some(data.join("milena"))
}

pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let options = Options {
        log_levels: Some(log_levels::init()),
        telemetry: Some(Arc::new(LoggedTelemetry)),
        ..Options::default()
    };
    let settings = settings(&arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(options, settings))
}

/// Flags, then the file, then `-X`: the later wins.
fn settings(arguments: &Arguments) -> Result<RawConfig> {
    let mut settings = RawConfig::new();
    settings.insert("listeners".to_owned(), format!("PLAINTEXT://{}", arguments.listen));
    settings.insert("log.dirs".to_owned(), arguments.data_dir.to_string_lossy().into_owned());
    if let Some(durability) = &arguments.durability {
        settings.insert("milena.durability".to_owned(), durability.clone());
    }
    if let Some(file) = &arguments.config {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let is_toml = file.extension().is_some_and(|extension| extension == "toml");
        let read = if is_toml {
            parse_toml(&text)
        } else {
            parse_properties(&text)
        };
        settings.extend(read.with_context(|| format!("in {}", file.display()))?);
    }
    settings.extend(parse_arguments(&arguments.settings)?);
    Ok(settings)
}

/// Leaves it at the line that the broker logs for each push, at DEBUG.
#[derive(Debug)]
struct LoggedTelemetry;

impl TelemetryReceiver for LoggedTelemetry {
    fn receive(&self, _: &TelemetryPush<'_>) {}
}

async fn serve(options: Options, settings: RawConfig) -> Result<()> {
    let mut signals = Signals::new()?;
    let broker = Broker::start_with(options, settings).await?;
    // One line that scripts can wait for and read.
    println!("BOOTSTRAP={}", broker.address());
    signals.received().await;
    broker.shutdown().await;
    Ok(())
}

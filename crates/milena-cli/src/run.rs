//! `milena run`: an application whose handlers are programs or HTTP services.

mod explain;

use std::{io::Write as _, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use milena_app::{App, AppFile, Replay, RunError, outside};
use milena_client::config::{AdminConfig, Origin, ServerAddress, parse_time, read_file};

use crate::{
    connection::{WAIT, default_bootstrap_servers},
    first_contact::wait_for_broker,
    secret,
    signals::Signals,
};
use explain::explain;

pub(crate) const HELP: &str = "A handler is a program (command), which gets one line of JSON per record on
stdin and replies with one on stdout, or a service (http), which gets one POST
per record. The reply {\"id\":1} means success. The reply
{\"id\":1,\"error\":\"…\",\"intent\":\"poison\"} makes the record a dead letter.
Partitions are paused while a program does not start or a service is down.

  group = \"billing\"
  [kafka]
  \"bootstrap.servers\" = \"127.0.0.1:9092\"
  [[handlers]]
  topic = \"orders\"
  command = [\"python3\", \"charge.py\"]
  retry = { attempts = 5, topics = [\"1m\", \"5m\", \"15m\"] }

See docs/run.md for all keys, the JSON, and examples in Python and with HTTP.";

const BOOTSTRAP: &str = "bootstrap.servers";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// TOML file that declares the application
    file: PathBuf,
    /// Check the file and exit
    #[arg(long)]
    check: bool,
    /// Bootstrap brokers, separated by commas; overrides the file
    #[arg(
        short,
        long = "bootstrap-server",
        visible_alias = "bootstrap-servers",
        alias = "bootstrap",
        value_name = "HOST:PORT"
    )]
    bootstrap: Option<String>,
    /// Client configs under Kafka's names, from a .properties or .toml file; overrides the table [kafka]
    #[arg(short = 'F', long, visible_alias = "config", value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// One client config under Kafka's name; may be repeated, overrides the files. Secrets only as references
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Time limit for reaching a broker at startup, as in 30s or 2m [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    wait: Option<Duration>,
    /// Address to serve /metrics, /healthz, /readyz and /status on, such as 127.0.0.1:9464
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Address to serve only /metrics on, such as 127.0.0.1:9464
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let name = arguments.file.display();
    let file = declared(arguments)?;
    let mut app = outside::app(&file).map_err(|error| anyhow!("{name}: {error}"))?;
    if let Some(address) = &arguments.listen {
        app = app.serve(address);
    }
    if let Some(address) = &arguments.metrics {
        app = app.metrics_endpoint(address);
    }
    app.check().map_err(|error| anyhow!("{name}: {}", explain(&error)))?;
    if arguments.check {
        println!("{name} is valid");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let servers = bootstrap_servers(&file)?;
        tokio::select! {
            reached = wait_for_broker(&servers, arguments.wait.unwrap_or(WAIT)) => reached?,
            () = signals.received() => return Ok(()),
        }
        let ended = match file.replay {
            Some(replay) => replay_once(app, replay, signals).await,
            None => run_on(app, signals).await,
        };
        ended.map_err(|error| anyhow!("{name}: {error:#}"))
    })
}

/// The file, overridden by flags and the environment.
fn declared(arguments: &Arguments) -> Result<AppFile> {
    let mut file = AppFile::read_runnable(&arguments.file)?;
    if let Some(path) = &arguments.command_config {
        for (key, value, origin) in read_file(path)?.settings() {
            file.override_setting(key, value, origin);
        }
    }
    if let Some(address) = &arguments.bootstrap {
        file.override_setting(BOOTSTRAP, address, &Origin::Named("-b".into()));
    } else if file.setting(BOOTSTRAP).is_none() {
        let (servers, origin) = default_bootstrap_servers();
        file.override_setting(BOOTSTRAP, &servers, &origin);
    }
    secret::check_arguments(&arguments.settings, "--command-config")?;
    for setting in &arguments.settings {
        let (key, value) = setting
            .split_once('=')
            .with_context(|| format!("-X {setting} is not KEY=VALUE"))?;
        file.override_setting(key, value, &Origin::Named("-X".into()));
    }
    Ok(file)
}

fn bootstrap_servers(file: &AppFile) -> Result<Vec<ServerAddress>> {
    let servers = [(BOOTSTRAP, file.setting(BOOTSTRAP).unwrap_or_default())];
    Ok(AdminConfig::resolve(&servers.into_iter().collect())?.bootstrap_servers)
}

async fn run_on(app: App, mut signals: Signals) -> Result<()> {
    let running = tokio::select! {
        started = app.start() => started.map_err(|error| anyhow!(explain(&error)))?,
        () = signals.received() => return Ok(()),
    };
    for address in [running.served_at(), running.metrics_at()].into_iter().flatten() {
        print_line(&format!("METRICS=http://{address}/metrics"));
    }
    // Scripts wait for this line.
    print_line("RUNNING");
    tokio::select! {
        () = signals.received() => {}
        () = running.ended() => {}
    }
    Ok(running.stop().await?)
}

/// Reads a range of offsets and exits. A second run continues where the first one stopped.
async fn replay_once(app: App, replay: Replay, mut signals: Signals) -> Result<()> {
    print_line("RUNNING");
    let report = tokio::select! {
        report = app.replay(replay) => report,
        () = signals.received() => bail!("replay interrupted; run it again to continue"),
    };
    let report = report.map_err(|error| match error {
        RunError::Start(error) => anyhow!(explain(&error)),
        error => error.into(),
    })?;
    for (partition, (begin, end)) in &report.partitions {
        print_line(&format!("{partition} replayed from {begin} to {end}"));
    }
    Ok(())
}

/// Prints a line. A closed stdout is ignored: the application must keep running.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

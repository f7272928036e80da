//! `milena outbox relay`.

use std::{
    io::Write as _,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use anyhow::{Context as _, Result};
use milena_client::config::{ConfigMap, ProducerConfig, parse_time};
use milena_http::{Endpoint, Page};
use milena_sql::{Database, relay::RunningRelay};

use super::relay_settings::{Keep, RelaySettings, kafka_arguments};
use crate::{
    connection::default_bootstrap_servers, database::DatabaseArguments, first_contact::wait_for_broker,
    signals::Signals,
};

pub(crate) const HELP: &str = "\
Examples:
  milena outbox relay -d postgres://app@db/shop -b kafka:9092
  milena outbox relay --config relay.toml

  database = \"postgres://app:${env:DB_PASSWORD}@db/shop\"
  listen = \"127.0.0.1:9465\"
  [kafka]
  \"bootstrap.servers\" = \"kafka:9092\"

Several relays share the work: start the same command on two machines. See
docs/effects.md for the guarantees.";

/// Connections of the HTTP endpoint at a time.
const CONNECTIONS_MAX: usize = 16;
/// Content type of metrics in Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// TOML file with the settings below, spelled with _, and a table [kafka]; arguments override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name in logs and leases [default: relay-<process id>]
    #[arg(long)]
    name: Option<String>,
    /// Time between two reads of an idle relay, which commits wake earlier [default: 100ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    poll_interval: Option<Duration>,
    /// Rows that one statement reads [default: 100]
    #[arg(long, value_name = "ROWS")]
    batch: Option<u32>,
    /// Rows that are read and not yet marked as published [default: 1000]
    #[arg(long, value_name = "ROWS")]
    in_flight: Option<u32>,
    /// Time after which another relay replaces a dead one [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    lease: Option<Duration>,
    /// Age at which published rows are deleted, or forever [default: 7d]
    #[arg(long, value_name = "AGE", value_parser = Keep::parse)]
    keep_published: Option<Keep>,
    /// Time between two deletions [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    clean_interval: Option<Duration>,
    /// Address to serve /metrics and /healthz on, such as 127.0.0.1:9465
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Bootstrap brokers, separated by commas [env: MILENA_BOOTSTRAP] [default: localhost:9092]
    #[arg(short, long = "bootstrap-server", value_name = "HOST:PORT")]
    #[arg(aliases = ["bootstrap-servers", "bootstrap"])]
    bootstrap: Option<String>,
    /// Producer configs under Kafka's names, from a .properties or .toml file
    #[arg(short = 'F', long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// One producer config under Kafka's name; may be repeated. Secrets only as references
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    database: DatabaseArguments,
}

impl Arguments {
    /// The file, overridden by arguments and the environment.
    fn settings(&self) -> Result<RelaySettings> {
        let mut settings = match &self.config {
            Some(path) => RelaySettings::read(path)?,
            None => RelaySettings::default(),
        };
        let kafka = kafka_arguments(
            self.command_config.as_deref(),
            self.bootstrap.as_deref(),
            &self.settings,
        )?;
        settings.override_by(RelaySettings {
            database: None,
            name: self.name.clone(),
            poll_interval: self.poll_interval,
            batch: self.batch,
            in_flight: self.in_flight,
            lease: self.lease,
            keep_published: self.keep_published,
            clean_interval: self.clean_interval,
            listen: self.listen.clone(),
            kafka,
        });
        if settings.kafka.get("bootstrap.servers").is_none() {
            let (servers, origin) = default_bootstrap_servers();
            settings.kafka.set_from("bootstrap.servers", servers, origin);
        }
        Ok(settings)
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let settings = arguments.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let (running, database, endpoint) = tokio::select! {
            started = start(arguments, settings) => started?,
            () = signals.received() => return Ok(()),
        };
        let ended = serve_until(running, endpoint, signals).await;
        database.close().await;
        ended
    })
}

async fn start(arguments: &Arguments, settings: RelaySettings) -> Result<(RunningRelay, Database, Option<Endpoint>)> {
    reach_broker(&settings.kafka, arguments.database.wait()).await?;
    let database = arguments.database.connect_or(settings.database.as_deref()).await?;
    let endpoint = match &settings.listen {
        Some(address) => {
            let bound = Endpoint::bind(address, CONNECTIONS_MAX).await;
            Some(bound.with_context(|| format!("cannot listen on {address}"))?)
        }
        None => None,
    };
    let running = settings.relay(database.clone()).start().await?;
    Ok((running, database, endpoint))
}

/// Runs until a signal or a failure. After a signal, events in flight are finished and marked.
async fn serve_until(running: RunningRelay, endpoint: Option<Endpoint>, mut signals: Signals) -> Result<()> {
    let mut running = Arc::new(running);
    let serving = endpoint.map(|endpoint| {
        print_line(&format!("METRICS=http://{}/metrics", endpoint.address()));
        tokio::spawn(serve(endpoint, Arc::downgrade(&running)))
    });
    // Scripts wait for this line.
    print_line("RUNNING");
    tokio::select! {
        () = signals.received() => {}
        () = running.ended() => {}
    }
    if let Some(serving) = serving {
        serving.abort();
    }
    loop {
        match Arc::try_unwrap(running) {
            Ok(running) => return Ok(running.stop().await?),
            // A page is being rendered, which does not wait for anything.
            Err(rendered) => running = rendered,
        }
        tokio::task::yield_now().await;
    }
}

async fn reach_broker(kafka: &ConfigMap, wait: Duration) -> Result<()> {
    let servers = [("bootstrap.servers", kafka.get("bootstrap.servers").unwrap_or_default())];
    let config = ProducerConfig::resolve(&servers.into_iter().collect())?;
    wait_for_broker(&config.bootstrap_servers, wait).await
}

async fn serve(endpoint: Endpoint, running: Weak<RunningRelay>) {
    let render = move |path: String| std::future::ready(page(&path, &running));
    endpoint.run(render).await;
}

fn page(path: &str, running: &Weak<RunningRelay>) -> Page {
    let Some(running) = running.upgrade() else {
        return Page::text(503, "stopping");
    };
    match path {
        "/metrics" => Page::ok(METRICS_TYPE, running.to_prometheus()),
        "/healthz" => match running.status().problem {
            None => Page::text(200, "ok"),
            Some(problem) => Page::text(503, problem),
        },
        _ => Page::text(404, "try /metrics or /healthz"),
    }
}

/// Prints a line. A closed stdout is ignored: the relay must keep running.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

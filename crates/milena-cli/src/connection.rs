//! Connection options and configs of all commands that talk to a cluster, and their first request.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use milena_client::{
    admin::{Admin, AdminError},
    config::{AdminConfig, ConfigMap, ConsumerConfig, Origin, ProducerConfig, ServerAddress, parse_time, read_file},
    consumer::{Consumer, PartitionInfo, TopicsError},
    producer::Producer,
};

use crate::{first_contact::wait_for_broker, log, secret};

/// The environment variable with the bootstrap brokers.
const VARIABLE: &str = "MILENA_BOOTSTRAP";
/// The address of `milena up`.
const DEFAULT: &str = "localhost:9092";
/// The default of `--wait`.
pub(crate) const WAIT: Duration = Duration::from_secs(5);
/// The time after which a broker that accepted a connection but does not respond is reported.
const SILENCE: Duration = Duration::from_secs(3);
/// The number of topics that an error message lists.
const TOPICS_SHOWN: usize = 10;

#[derive(clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArguments {
    /// Bootstrap brokers, separated by commas [env: MILENA_BOOTSTRAP] [default: localhost:9092]
    #[arg(short, long = "bootstrap-server", value_name = "HOST:PORT")]
    #[arg(aliases = ["bootstrap-servers", "bootstrap", "brokers"])]
    bootstrap: Option<String>,
    /// Client configs under Kafka's names, from a .properties or .toml file
    #[arg(short = 'F', long = "command-config", visible_alias = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// One client config under Kafka's name; may be repeated, overrides everything else. Secrets only as references,
    /// such as 'sasl.password=${env:NAME}'
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Time limit for reaching a broker, as in 500ms, 30s or 2m [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    wait: Option<Duration>,
}

impl ConnectionArguments {
    /// Creates a consumer once a broker is reachable.
    pub(crate) async fn consumer(
        &self,
        defaults: &[(&str, &str)],
        flags: &[(&str, &str, Option<&str>)],
    ) -> Result<Consumer> {
        let config = ConsumerConfig::resolve(&self.map(defaults, flags)?)?;
        self.wait_for_broker(&config.bootstrap_servers, config.default_api_timeout_ms)
            .await?;
        Ok(Consumer::new(config)?)
    }

    /// Creates a producer once a broker is reachable.
    pub(crate) async fn producer(&self) -> Result<Producer> {
        let config = ProducerConfig::resolve(&self.map(&[], &[])?)?;
        self.wait_for_broker(&config.bootstrap_servers, i32::MAX).await?;
        Ok(Producer::new(config)?)
    }

    /// Returns the settings of several clients once a broker is reachable.
    pub(crate) async fn settings(&self) -> Result<ConfigMap> {
        let map = self.map(&[], &[])?;
        let config = ProducerConfig::resolve(&map)?;
        self.wait_for_broker(&config.bootstrap_servers, i32::MAX).await?;
        Ok(map)
    }

    /// Creates an admin client once the cluster has responded.
    pub(crate) async fn admin(&self) -> Result<Admin> {
        let config = AdminConfig::resolve(&self.map(&[], &[])?)?;
        let (servers, timeout_ms) = (config.bootstrap_servers.clone(), config.default_api_timeout_ms);
        self.wait_for_broker(&servers, timeout_ms).await?;
        let admin = Admin::new(config)?;
        match with_notice(&servers, timeout_ms, admin.describe_cluster()).await {
            Ok(_) => Ok(admin),
            Err(error @ AdminError::TimedOut { .. }) => Err(error).context(no_response(&servers)),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a broker, at most for `--wait` or the API timeout.
    async fn wait_for_broker(&self, servers: &[ServerAddress], timeout_ms: i32) -> Result<()> {
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or_default());
        wait_for_broker(servers, self.wait.unwrap_or_else(|| WAIT.min(timeout))).await
    }

    /// The configs. In rising precedence: defaults of the command, the file, flags, `-X`.
    fn map(&self, defaults: &[(&str, &str)], flags: &[(&str, &str, Option<&str>)]) -> Result<ConfigMap> {
        let mut map = ConfigMap::new();
        let (servers, origin) = default_bootstrap_servers();
        map.set_from("bootstrap.servers", servers, origin);
        for (key, value) in defaults {
            map.set_from(*key, value, Origin::Named("default of this command".into()));
        }
        if let Some(file) = &self.config {
            map.merge(read_file(file)?);
        }
        let bootstrap = ("-b", "bootstrap.servers", self.bootstrap.as_deref());
        for (flag, key, value) in flags.iter().copied().chain([bootstrap]) {
            if let Some(value) = value {
                map.set_from(key, value, Origin::Named(flag.into()));
            }
        }
        secret::check_arguments(&self.settings, "--command-config")?;
        let origin = Origin::Named(Arc::from("-X"));
        for setting in &self.settings {
            let (key, value) = setting
                .split_once('=')
                .with_context(|| format!("-X {setting} is not KEY=VALUE"))?;
            map.set_from(key, value, origin.clone());
        }
        if let Some(password) = secret::prompt_for_sasl_password(|key| map.get(key))? {
            map.set_from("sasl.password", password.expose(), Origin::Named("prompt".into()));
        }
        Ok(map)
    }
}

/// The bootstrap servers of commands that are given none: those of the environment, or the address of `milena up`.
pub(crate) fn default_bootstrap_servers() -> (String, Origin) {
    let (servers, origin) = match std::env::var(VARIABLE) {
        Ok(servers) if !servers.trim().is_empty() => (servers, VARIABLE),
        _ => (DEFAULT.to_owned(), "default"),
    };
    (servers, Origin::Named(origin.into()))
}

/// Runs a command to its end.
pub(crate) fn run(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(command);
    // Does not wait for a DNS lookup that is still in progress.
    runtime.shutdown_background();
    outcome
}

/// The partitions of a topic, or an error that lists the existing topics.
pub(crate) async fn partitions(consumer: &mut Consumer, topic: &str) -> Result<Vec<PartitionInfo>> {
    let config = consumer.config();
    let (servers, timeout_ms) = (config.bootstrap_servers.clone(), config.default_api_timeout_ms);
    match with_notice(&servers, timeout_ms, consumer.partitions_for(topic)).await {
        Ok(partitions) if partitions.is_empty() => {
            bail!("topic {topic:?} does not exist; {}", existing_topics(consumer).await?)
        }
        Ok(partitions) => Ok(partitions),
        Err(error @ TopicsError::TimedOut { .. }) => Err(error).context(no_response(&servers)),
        Err(error) => Err(error.into()),
    }
}

/// Awaits a response, and prints a notice if that takes long.
async fn with_notice<T>(servers: &[ServerAddress], timeout_ms: i32, response: impl Future<Output = T>) -> T {
    let mut response = std::pin::pin!(response);
    match tokio::time::timeout(SILENCE, &mut response).await {
        Ok(response) => response,
        Err(_) => {
            let (servers, seconds) = (names(servers), timeout_ms / 1000);
            log::notice(format_args!(
                "no response from {servers} yet; trying for {seconds} s (default.api.timeout.ms), Ctrl-C to stop"
            ));
            response.await
        }
    }
}

fn names(servers: &[ServerAddress]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    servers.join(", ")
}

fn no_response(servers: &[ServerAddress]) -> String {
    let servers = names(servers);
    format!("{servers} accepts connections but does not respond; check that it is a Kafka broker")
}

/// A list of existing topics, for the error about a missing one.
pub(crate) async fn existing_topics(consumer: &mut Consumer) -> Result<String> {
    let topics = consumer.list_topics().await?;
    let all: Vec<&str> = topics
        .keys()
        .map(|name| &**name)
        .filter(|name| !name.starts_with("__"))
        .collect();
    let names = all.get(..TOPICS_SHOWN).unwrap_or(&all);
    Ok(match all.len() {
        0 => "the cluster has no topics".to_owned(),
        count if count > names.len() => format!("the first of {count} topics are {}", names.join(", ")),
        _ => format!("existing topics are {}", names.join(", ")),
    })
}

//! What all commands that talk to a cluster share: their settings, and the first question.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use milena_client::{
    admin::{Admin, AdminError},
    config::{AdminConfig, ConfigMap, ConsumerConfig, Origin, ProducerConfig, ServerAddress},
    consumer::{Consumer, PartitionInfo, TopicsError},
    producer::Producer,
};
use tracing_subscriber::filter::LevelFilter;

/// How long a broker may be silent before the user hears of it.
const SILENCE: Duration = Duration::from_secs(3);
/// As many topics as a message can name and still be read.
const TOPICS_SHOWN: usize = 10;

#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    /// Brokers to begin with; several are separated by commas
    #[arg(short, long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// Settings of the client under Kafka's names, from a .properties or a .toml file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting of the client under Kafka's name; may be repeated, and wins over all else
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl ClusterArguments {
    pub(crate) fn consumer(&self, defaults: &[(&str, &str)], flags: &[(&str, &str, Option<&str>)]) -> Result<Consumer> {
        Ok(Consumer::new(ConsumerConfig::resolve(&self.map(defaults, flags)?)?)?)
    }

    pub(crate) fn producer(&self) -> Result<Producer> {
        Ok(Producer::new(ProducerConfig::resolve(&self.map(&[], &[])?)?)?)
    }

    pub(crate) fn admin(&self) -> Result<Admin> {
        Ok(Admin::new(AdminConfig::resolve(&self.map(&[], &[])?)?)?)
    }

    /// The settings. Our defaults are weakest, then comes the file, then flags, each with its name, then `-X`.
    fn map(&self, defaults: &[(&str, &str)], flags: &[(&str, &str, Option<&str>)]) -> Result<ConfigMap> {
        let mut map = ConfigMap::new();
        for (key, value) in defaults {
            map.set_from(*key, value, Origin::Named("default of this command".into()));
        }
        if let Some(file) = &self.config {
            map.merge(ConfigMap::read_file(file)?);
        }
        let bootstrap = ("-b", "bootstrap.servers", self.bootstrap.as_deref());
        for (flag, key, value) in flags.iter().copied().chain([bootstrap]) {
            if let Some(value) = value {
                map.set_from(key, value, Origin::Named(flag.into()));
            }
        }
        let origin = Origin::Named(Arc::from("-X"));
        for setting in &self.settings {
            let (key, value) = setting
                .split_once('=')
                .with_context(|| format!("-X {setting} is not KEY=VALUE"))?;
            map.set_from(key, value, origin.clone());
        }
        Ok(map)
    }
}

/// Runs a command to its end. What the consumer warns of is for the user.
pub(crate) fn run(command: impl Future<Output = Result<()>>) -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_max_level(LevelFilter::WARN)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// The partitions of a topic that must be there. It is the first question to the cluster, so it tells too if there is none.
pub(crate) async fn partitions(consumer: &mut Consumer, topic: &str) -> Result<Vec<PartitionInfo>> {
    let config = consumer.config();
    let servers = names(&config.bootstrap_servers);
    let timeout_ms = config.default_api_timeout_ms;
    let asked = patiently(&servers, timeout_ms, consumer.partitions_for(topic)).await;
    match asked {
        Ok(partitions) if partitions.is_empty() => bail!("there is no topic {topic:?}; {}", others(consumer).await?),
        Ok(partitions) => Ok(partitions),
        Err(error @ TopicsError::TimedOut { .. }) => Err(error).context(unreachable(&servers)),
        Err(error) => Err(error.into()),
    }
}

/// Waits for an answer, and tells the user if that takes long.
async fn patiently<T>(servers: &str, timeout_ms: i32, asked: impl Future<Output = T>) -> T {
    let mut asked = std::pin::pin!(asked);
    match tokio::time::timeout(SILENCE, &mut asked).await {
        Ok(answer) => answer,
        Err(_) => {
            let seconds = timeout_ms / 1000;
            eprintln!("milena: no answer from {servers} yet; trying for {seconds} s (default.api.timeout.ms)");
            asked.await
        }
    }
}

fn names(servers: &[ServerAddress]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    servers.join(", ")
}

fn unreachable(servers: &str) -> String {
    format!("cannot reach {servers}; see that a broker runs there, or give another address with -b")
}

/// An admin client whose cluster has answered. It is the first question, so it tells too if there is none.
pub(crate) async fn admin(arguments: &ClusterArguments) -> Result<Admin> {
    let admin = arguments.admin()?;
    let config = admin.config();
    let servers = names(&config.bootstrap_servers);
    match patiently(&servers, config.default_api_timeout_ms, admin.describe_cluster()).await {
        Ok(_) => Ok(admin),
        Err(error @ AdminError::TimedOut { .. }) => Err(error).context(unreachable(&servers)),
        Err(error) => Err(error.into()),
    }
}

/// The topics that there are instead.
async fn others(consumer: &mut Consumer) -> Result<String> {
    let topics = consumer.list_topics().await?;
    let names: Vec<&str> = topics.keys().take(TOPICS_SHOWN).map(|name| &**name).collect();
    Ok(match topics.len() {
        0 => "the cluster has none at all".to_owned(),
        count if count > names.len() => format!("the first of {count} are {}", names.join(", ")),
        _ => format!("there are {}", names.join(", ")),
    })
}

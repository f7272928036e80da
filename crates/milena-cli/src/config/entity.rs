//! The topics, brokers and groups whose settings a command is about.

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use milena_client::admin::{Admin, ConfigResource, ResourceKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(alias = "topics")]
    Topic,
    #[value(alias = "brokers")]
    Broker,
    #[value(alias = "groups")]
    Group,
}

#[derive(clap::Args)]
pub(super) struct EntityArguments {
    /// topic, broker or group
    #[arg(
        value_enum,
        value_name = "KIND",
        required_unless_present = "entity_type",
        hide_possible_values = true
    )]
    kind: Option<Kind>,
    /// Names of topics or groups, or ids of brokers
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The settings that all brokers share
    #[arg(long, alias = "entity-default", conflicts_with = "names")]
    default: bool,
    /// The same as KIND, as in kafka-configs
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true)]
    entity_type: Option<Kind>,
    /// The same as NAME, as in kafka-configs; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "default")]
    entity_name: Vec<String>,
}

impl EntityArguments {
    /// What is named; all of its kind if nothing is. With `--entity-type` the first argument is a name already.
    fn named(&self) -> Result<(Kind, Vec<String>)> {
        ensure!(
            self.kind.is_none() || self.entity_type.is_none(),
            "name the kind once: as KIND or with --entity-type"
        );
        let Some(kind) = self.kind.or(self.entity_type) else {
            bail!("name a kind: topic, broker or group");
        };
        ensure!(
            !self.default || kind == Kind::Broker,
            "only brokers have settings that all share"
        );
        Ok((kind, self.names.iter().chain(&self.entity_name).cloned().collect()))
    }

    /// Fails if nothing is named, or if what is named cannot be.
    pub(super) fn check_named(&self) -> Result<()> {
        let (kind, names) = self.named()?;
        ensure!(
            !names.is_empty() || self.default,
            "{}",
            match kind {
                Kind::Topic => "name a topic; `milena topic list` shows which there are",
                Kind::Broker => "name a broker by its id, or all with --default; `milena cluster info` shows the ids",
                Kind::Group => "name a group; `milena group list` shows which there are",
            }
        );
        Ok(())
    }

    pub(super) fn check(&self) -> Result<()> {
        let (kind, names) = self.named()?;
        for name in names {
            let is_id = name.parse::<i32>().is_ok();
            ensure!(
                kind != Kind::Broker || is_id,
                "{name} is not the id of a broker, which is a number"
            );
        }
        Ok(())
    }

    pub(super) async fn resources(&self, admin: &Admin) -> Result<Vec<ConfigResource>> {
        let (kind, names) = self.named()?;
        if self.default {
            return Ok(vec![ConfigResource::all_brokers()]);
        }
        let resource = |name: String| match kind {
            Kind::Topic => ConfigResource::topic(name),
            Kind::Broker => ConfigResource::new(ResourceKind::Broker, name),
            Kind::Group => ConfigResource::group(name),
        };
        if !names.is_empty() {
            return Ok(names.into_iter().map(resource).collect());
        }
        match kind {
            Kind::Topic => {
                let topics = admin.list_topics().await?.into_keys();
                Ok(topics.map(ConfigResource::topic).collect())
            }
            Kind::Broker => {
                let brokers = admin.describe_cluster().await?.brokers.into_iter();
                Ok(brokers.map(|broker| ConfigResource::broker(broker.node.id)).collect())
            }
            Kind::Group => Ok(admin.list_config_resources([ResourceKind::Group]).await?),
        }
    }
}

//! Topics, brokers and groups on the command line of `milena config`.

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
    /// The defaults of all brokers
    #[arg(long, alias = "entity-default", conflicts_with = "names")]
    default: bool,
    /// Same as KIND, as in kafka-configs
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true)]
    entity_type: Option<Kind>,
    /// Same as NAME, as in kafka-configs; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "default")]
    entity_name: Vec<String>,
}

impl EntityArguments {
    /// The kind and the names; no names mean all of the kind. With `--entity-type` the first argument is a name.
    fn named(&self) -> Result<(Kind, Vec<String>)> {
        ensure!(
            self.kind.is_none() || self.entity_type.is_none(),
            "the kind is given twice; remove KIND or --entity-type"
        );
        let Some(kind) = self.kind.or(self.entity_type) else {
            bail!("no kind given; use topic, broker or group");
        };
        ensure!(
            !self.default || kind == Kind::Broker,
            "--default is only valid for brokers"
        );
        Ok((kind, self.names.iter().chain(&self.entity_name).cloned().collect()))
    }

    /// Fails if no entity is named.
    pub(super) fn check_named(&self) -> Result<()> {
        let (kind, names) = self.named()?;
        ensure!(
            !names.is_empty() || self.default,
            "{}",
            match kind {
                Kind::Topic => "no topic given; `milena topic list` lists them",
                Kind::Broker => "no broker given; name its id, or use --default; `milena cluster info` lists the ids",
                Kind::Group => "no group given; `milena group list` lists them",
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
                "invalid broker id {name}; it must be a number"
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

//! Users, client ids and addresses on the command line of `milena quota`.

use anyhow::{Result, ensure};
use milena_client::admin::{QuotaEntity, QuotaFilter, QuotaMatch};

const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";

#[derive(clap::Args)]
#[command(next_help_heading = "Entity")]
pub(super) struct EntityArguments {
    /// User; with --client-id, a client id of this user
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
    /// Default of users without a quota of their own
    #[arg(long, alias = "user-default", conflicts_with = "user")]
    user_defaults: bool,
    /// Client id
    #[arg(short, long, alias = "client", value_name = "ID")]
    client_id: Option<String>,
    /// Default of client ids without a quota of their own
    #[arg(
        long,
        alias = "client-id-defaults",
        alias = "client-id-default",
        conflicts_with = "client_id"
    )]
    client_defaults: bool,
    /// Address from which clients connect
    #[arg(long, value_name = "IP")]
    ip: Option<String>,
    /// Default of addresses without a quota of their own
    #[arg(long, alias = "ip-default", conflicts_with = "ip")]
    ip_defaults: bool,
}

impl EntityArguments {
    /// The given types, each with a name or `None` for the default.
    fn parts(&self) -> Vec<(&'static str, Option<&str>)> {
        [
            (USER, &self.user, self.user_defaults),
            (CLIENT_ID, &self.client_id, self.client_defaults),
            (IP, &self.ip, self.ip_defaults),
        ]
        .into_iter()
        .filter(|(_, name, default)| name.is_some() || *default)
        .map(|(kind, name, _)| (kind, name.as_deref()))
        .collect()
    }

    /// The entity whose quotas are altered.
    pub(super) fn entity(&self) -> Result<QuotaEntity> {
        let parts = self.parts();
        ensure!(
            !parts.is_empty(),
            "no entity given; use --user, --client-id, both, or --ip, or their defaults: --user-defaults, \
             --client-defaults, --ip-defaults"
        );
        ensure!(
            parts.len() == 1 || parts.iter().all(|(kind, _)| *kind != IP),
            "a quota of an address has no user and no client id; remove --ip or the others"
        );
        let entity = parts.into_iter().fold(QuotaEntity::default(), |entity, (kind, name)| {
            entity.and(kind, name.map(Into::into))
        });
        Ok(entity)
    }

    /// The filter of listed quotas. Entities with further types match too: the client ids of a user.
    pub(super) fn filter(&self) -> QuotaFilter {
        let wanted = |name: Option<&str>| match name {
            Some(name) => QuotaMatch::Exact(name.into()),
            None => QuotaMatch::Default,
        };
        let components = self.parts().into_iter();
        QuotaFilter {
            components: components.map(|(kind, name)| (kind.into(), wanted(name))).collect(),
            strict: false,
        }
    }
}

/// The name of one type of an entity: empty without that type.
pub(super) fn part(entity: &QuotaEntity, kind: &str) -> String {
    let name = entity.0.iter().find(|(of, _)| **of == *kind).map(|(_, name)| name);
    name.map_or_else(String::new, |name| {
        name.as_ref()
            .map_or_else(|| "(default)".to_owned(), ToString::to_string)
    })
}

/// The types of entities, in the order of columns.
pub(super) const KINDS: [&str; 3] = [USER, CLIENT_ID, IP];

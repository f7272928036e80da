//! `milena quota list`.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::entity::{EntityArguments, KINDS, part};
use crate::{
    connection::ConnectionArguments,
    log,
    output::{OutputArguments, Table},
};

pub(crate) const HELP: &str = "\
Examples:
  milena quota list                        all quotas
  milena quota list --user alice           of a user, and of its client ids
  milena quota list --user-defaults

Of several quotas that match a client, the most specific one applies: user and
client id, then user, then client id.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    entity: EntityArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Serialize)]
struct QuotaRow {
    /// The name by type; `None` is the default of the type.
    entity: BTreeMap<String, Option<String>>,
    quotas: BTreeMap<String, f64>,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let filter = arguments.entity.filter();
    let is_limited = !filter.components.is_empty();
    let admin = arguments.connection.admin().await?;
    let quotas = admin.describe_quotas(filter).await?;
    let rows: Vec<QuotaRow> = quotas
        .iter()
        .map(|(entity, values)| QuotaRow {
            entity: entity
                .0
                .iter()
                .map(|(kind, name)| (kind.to_string(), name.as_ref().map(ToString::to_string)))
                .collect(),
            quotas: values.iter().map(|(key, value)| (key.to_string(), *value)).collect(),
        })
        .collect();
    arguments.output.print(&rows, || {
        let mut table = Table::new(&["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"]);
        for (entity, values) in &quotas {
            for (key, value) in values {
                let [user, client_id, ip] = KINDS.map(|kind| part(entity, kind));
                table.row([user, client_id, ip, key.to_string(), value.to_string()]);
            }
        }
        table.write()
    })?;
    if rows.is_empty() {
        log::notice(if is_limited {
            "no quota matches"
        } else {
            "the cluster has no quotas"
        });
    }
    Ok(())
}

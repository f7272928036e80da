//! `milena quota alter`.

use anyhow::{Result, ensure};
use milena_client::admin::QuotaChange;

use super::entity::EntityArguments;
use crate::{
    connection::ConnectionArguments,
    output::{OutputArguments, print_outcomes},
};

pub(crate) const HELP: &str = "\
Examples:
  milena quota alter --user alice --set producer_byte_rate=1048576
  milena quota alter --user alice --client-id loader \\
    --set consumer_byte_rate=10485760 --set request_percentage=50
  milena quota alter --client-defaults --set controller_mutation_rate=10
  milena quota alter --ip 10.0.0.7 --set connection_creation_rate=5
  milena quota alter --user alice --delete producer_byte_rate

Quotas: producer_byte_rate and consumer_byte_rate (bytes per second),
request_percentage (of one thread), controller_mutation_rate (partitions created
or deleted per second), connection_creation_rate (connections per second, of an
address).";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Set a quota; may be repeated
    #[arg(short, long, alias = "add-config", alias = "add", value_name = "QUOTA=VALUE", value_parser = quota)]
    set: Vec<(String, f64)>,
    /// Delete a quota; may be repeated
    #[arg(short, long, alias = "delete-config", value_name = "QUOTA")]
    delete: Vec<String>,
    /// Only check whether the change is valid
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    entity: EntityArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

fn quota(text: &str) -> Result<(String, f64), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(name, value)| Some((name.trim().to_owned(), value.trim().parse::<f64>().ok()?)));
    match parsed {
        Some((name, value)) if !name.is_empty() && value.is_finite() && value > 0.0 => Ok((name, value)),
        _ => Err("expected a name and a number above 0, as in producer_byte_rate=1048576".to_owned()),
    }
}

pub(super) async fn alter(arguments: &Arguments) -> Result<()> {
    let entity = arguments.entity.entity()?;
    let set = arguments
        .set
        .iter()
        .map(|(name, value)| (name, QuotaChange::Set(*value)));
    let delete = arguments.delete.iter().map(|name| (name, QuotaChange::Remove));
    let changes: Vec<_> = set
        .chain(delete)
        .map(|(name, change)| (entity.clone(), name.as_str(), change))
        .collect();
    ensure!(
        !changes.is_empty(),
        "no change given; use --set QUOTA=VALUE or --delete QUOTA"
    );
    let admin = arguments.connection.admin().await?;
    let altered = match arguments.dry_run {
        true => admin.validate_quotas(changes).await,
        false => admin.alter_quotas(changes).await,
    };
    let done = if arguments.dry_run { "would change" } else { "changed" };
    print_outcomes(&arguments.output, altered, |entity, ()| {
        format!("{done} the quotas of {entity}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_name_and_a_positive_number() {
        assert_eq!(
            quota("request_percentage=12.5"),
            Ok(("request_percentage".to_owned(), 12.5))
        );
        for wrong in ["", "a", "a=", "=1", "a=0", "a=-1", "a=NaN", "a=inf"] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
    }
}

//! `milena user delete`.

use anyhow::Result;
use milena_client::admin::{ScramChange, ScramMechanism};

use super::{alter, credentials, mechanism};
use crate::{
    admin_arguments::AdminArguments,
    output::{fail_if_any, print_outcomes},
};

pub(crate) const HELP: &str = "\
Examples:
  milena user delete alice
  milena user delete alice --mechanism SCRAM-SHA-256    keeps the other one

The ACLs of a user stay: `milena acl delete --principal alice` deletes them.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of the users
    #[arg(value_name = "USER", required = true)]
    names: Vec<String>,
    /// Delete only the password for this mechanism; may be repeated [default: all]
    #[arg(short, long, value_name = "MECHANISM", value_parser = mechanism::parse)]
    mechanism: Vec<ScramMechanism>,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn delete(arguments: &Arguments) -> Result<()> {
    let admin = arguments.common.connection.admin().await?;
    let (mut changes, mut missing) = (vec![], vec![]);
    for name in &arguments.names {
        let existing = credentials(&admin, name).await?.into_iter().map(|one| one.mechanism);
        let is_meant = |one: &ScramMechanism| arguments.mechanism.is_empty() || arguments.mechanism.contains(one);
        let before = changes.len();
        changes.extend(
            existing
                .filter(is_meant)
                .map(|mechanism| (name.clone(), mechanism, ScramChange::Delete(mechanism))),
        );
        if changes.len() == before {
            missing.push(format!(
                "user {name} has no such SCRAM password; `milena user list` lists them"
            ));
        }
    }
    let deleted = alter(&admin, changes).await;
    print_outcomes(&arguments.common.output, deleted, |name, ()| {
        format!("deleted the password of {name}")
    })?;
    fail_if_any(missing)
}

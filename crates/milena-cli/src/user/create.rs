//! `milena user create`.

use anyhow::{Result, bail};
use milena_client::admin::{ScramChange, ScramMechanism};

use super::{alter, credentials, mechanism};
use crate::{admin_arguments::AdminArguments, output::print_outcomes, secret::PasswordArguments};

pub(crate) const HELP: &str = "\
Examples:
  milena user create alice                              prompts for a password
  milena user create alice --password-file alice.txt
  milena user create alice --password '${env:ALICE_PASSWORD}'
  milena user create alice --replace                    a new password

The password is not sent and not stored: brokers get and keep a salted hash.
A new user may do nothing on a cluster with ACLs; `milena acl create` allows it.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the user
    #[arg(value_name = "USER")]
    name: String,
    /// SCRAM-SHA-256 or SCRAM-SHA-512; may be repeated [default: SCRAM-SHA-512]
    #[arg(short, long, value_name = "MECHANISM", value_parser = mechanism::parse)]
    mechanism: Vec<ScramMechanism>,
    /// Iterations of the hash, from 4096 to 16384; more make guessing and each log-in slower
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(4096..=16384))]
    iterations: u32,
    /// Set a new password for a user that exists
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    password: PasswordArguments,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn create(arguments: &Arguments) -> Result<()> {
    let mut mechanisms = arguments.mechanism.clone();
    if mechanisms.is_empty() {
        mechanisms.push(ScramMechanism::Sha512);
    }
    mechanisms.sort_unstable();
    mechanisms.dedup();
    let admin = arguments.common.connection.admin().await?;
    if !arguments.replace {
        let existing = credentials(&admin, &arguments.name).await?;
        if let Some(same) = existing.iter().find(|one| mechanisms.contains(&one.mechanism)) {
            bail!(
                "user {} has a password for {} already; --replace sets a new one",
                arguments.name,
                same.mechanism
            );
        }
    }
    let password = arguments.password.new_password(&arguments.name)?;
    let changes = mechanisms.into_iter().map(|mechanism| {
        let change = ScramChange::Set {
            mechanism,
            password: password.expose().to_owned(),
            iterations: arguments.iterations,
        };
        (arguments.name.clone(), mechanism, change)
    });
    let set = alter(&admin, changes).await;
    print_outcomes(&arguments.common.output, set, |name, ()| {
        format!("set the password of {name}")
    })
}

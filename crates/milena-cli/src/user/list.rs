//! `milena user list`.

use anyhow::Result;
use serde::Serialize;

use crate::{
    admin_arguments::AdminArguments,
    log,
    output::{Table, split},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these users
    #[arg(value_name = "USER")]
    names: Vec<String>,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct UserRow {
    user: String,
    credentials: Vec<Credential>,
}

#[derive(Serialize)]
struct Credential {
    mechanism: String,
    iterations: i32,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let admin = arguments.common.connection.admin().await?;
    let described = match arguments.names.is_empty() {
        true => admin.describe_all_scram_users().await?,
        false => {
            let names = arguments.names.iter().map(String::as_str);
            admin.describe_scram_users(names).await
        }
    };
    let (users, problems) = split(described);
    let users: Vec<UserRow> = users
        .into_iter()
        .map(|(user, credentials)| UserRow {
            user: user.to_string(),
            credentials: credentials
                .into_iter()
                .map(|credential| Credential {
                    mechanism: credential.mechanism.to_string(),
                    iterations: credential.iterations,
                })
                .collect(),
        })
        .collect();
    arguments.common.output.print(&users, || {
        let mut table = Table::new(&["USER", "MECHANISM", "ITERATIONS"]);
        for row in &users {
            for credential in &row.credentials {
                let iterations = credential.iterations.to_string();
                table.row([row.user.clone(), credential.mechanism.clone(), iterations]);
            }
        }
        table.write()
    })?;
    if users.is_empty() && problems.is_ok() {
        log::notice("the cluster has no SCRAM users");
    }
    problems
}

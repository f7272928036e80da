//! `milena group list`.

use anyhow::{Result, bail};
use milena_client::admin::{GroupFilter, GroupType};
use serde::Serialize;

use crate::{
    admin_arguments::AdminArguments,
    output::{Table, fail_if_any},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only groups in this state, such as Stable or Empty; may be repeated
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only groups of this type, such as classic or consumer; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct GroupRow {
    group: String,
    #[serde(rename = "type")]
    group_type: Option<String>,
    protocol: String,
    state: Option<String>,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let mut filter = GroupFilter {
        states: arguments.state.iter().map(|state| state.as_str().into()).collect(),
        ..Default::default()
    };
    for name in &arguments.types {
        filter.types.insert(match name.to_ascii_lowercase().as_str() {
            "classic" => GroupType::Classic,
            "consumer" => GroupType::Consumer,
            "share" => GroupType::Other("Share".into()),
            "streams" => GroupType::Other("Streams".into()),
            _ => bail!("unknown group type {name}; use classic, consumer, share or streams"),
        });
    }
    let admin = arguments.common.connection.admin().await?;
    let listed = admin.list_groups(filter).await?;
    let groups: Vec<GroupRow> = listed
        .found
        .into_iter()
        .map(|group| GroupRow {
            group: group.group_id.to_string(),
            group_type: group.group_type.map(|of| of.name().to_owned()),
            protocol: group.protocol_type.to_string(),
            state: group.state.map(|state| state.to_string()),
        })
        .collect();
    arguments.common.output.print(&groups, || {
        let mut table = Table::new(&["GROUP", "TYPE", "PROTOCOL", "STATE"]);
        for group in &groups {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let GroupRow { group_type, state, .. } = group;
            table.row([
                group.group.clone(),
                text(group_type),
                group.protocol.clone(),
                text(state),
            ]);
        }
        table.write()
    })?;
    fail_if_any(listed.failed.into_values())
}

//! The groups that a command is about.

use anyhow::{Result, ensure};
use milena_client::admin::{Admin, GroupFilter};

use crate::output::fail_if_any;

#[derive(clap::Args)]
pub(super) struct Groups {
    /// The groups
    #[arg(value_name = "GROUP")]
    names: Vec<String>,
    /// The same as GROUP; may be repeated
    #[arg(short, long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// All groups of the cluster
    #[arg(long, conflicts_with_all = ["names", "groups"])]
    all_groups: bool,
}

impl Groups {
    /// Fails if no group is named, before anything is asked of a broker.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.are_named(),
            "name a group, or --all-groups; `milena group list` shows which there are"
        );
        Ok(())
    }

    pub(super) fn are_named(&self) -> bool {
        self.all_groups || !self.names.is_empty() || !self.groups.is_empty()
    }

    pub(super) fn are_all(&self) -> bool {
        self.all_groups
    }

    pub(super) async fn names(&self, admin: &Admin) -> Result<Vec<String>> {
        if !self.all_groups {
            return Ok(self.names.iter().chain(&self.groups).cloned().collect());
        }
        let listed = admin.list_groups(GroupFilter::default()).await?;
        fail_if_any(listed.failed.into_values())?;
        Ok(listed
            .found
            .into_iter()
            .map(|group| group.group_id.to_string())
            .collect())
    }
}

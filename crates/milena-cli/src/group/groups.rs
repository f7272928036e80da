//! Groups on the command line.

use anyhow::{Result, ensure};
use milena_client::admin::{Admin, GroupFilter};

use crate::output::fail_if_any;

#[derive(clap::Args)]
pub(super) struct Groups {
    /// Groups
    #[arg(value_name = "GROUP")]
    names: Vec<String>,
    /// Same as GROUP; may be repeated
    #[arg(short, long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// All groups of the cluster
    #[arg(long, conflicts_with_all = ["names", "groups"])]
    all_groups: bool,
}

impl Groups {
    /// Fails if no group is named, before a request is sent.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.are_named(),
            "no group given; name one or use --all-groups; `milena group list` lists them"
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

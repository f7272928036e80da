//! Limits of what requests can make the node keep.

use milena_machines::authorizer::Acl;
use milena_wire::errors::ErrorCode;

use super::{Node, Refusal};
use crate::topics::is_internal;

impl Node {
    /// Checks that there is room for a new topic with these partitions, besides `pending` topics and partitions that the same
    /// request creates.
    pub(super) fn check_room_for_topic(
        &self,
        name: &str,
        partitions: usize,
        pending: (usize, usize),
    ) -> Result<(), Refusal> {
        // The broker needs its own topics whatever clients have created.
        if is_internal(name) {
            return Ok(());
        }
        let max = self.config().limits.topics;
        let topics = self.topics().len() + pending.0;
        if topics >= max {
            let reason = format!("there are {topics} topics, and milena.max.topics is {max}");
            return Err(self.refuse(reason));
        }
        self.check_room_for_partitions(partitions, pending.1)
    }

    /// Checks that there is room for more partitions, besides `pending` ones of the same request.
    pub(super) fn check_room_for_partitions(&self, added: usize, pending: usize) -> Result<(), Refusal> {
        let max = self.config().limits.partitions;
        let present = self.topics().partitions_len() + pending;
        if present + added > max {
            let reason = format!(
                "there are {present} partitions, {added} more are requested, and milena.max.partitions is {max}"
            );
            return Err(self.refuse(reason));
        }
        Ok(())
    }

    /// Checks the number of partitions that one topic of a request adds.
    pub(super) fn check_added(&self, count: i32) -> Result<(), Refusal> {
        let max = self.config().limits.partitions_per_request;
        if count > max {
            let reason =
                format!("{count} partitions are requested at once, and milena.max.partitions.per.request is {max}");
            return Err(self.refuse(reason));
        }
        Ok(())
    }

    /// Checks the length of the value of a config.
    pub(crate) fn check_config_value(&self, name: &str, value: Option<&str>) -> Result<(), Refusal> {
        let (bytes, max) = (value.map_or(0, str::len), self.config().limits.config_value_bytes);
        if bytes <= max {
            return Ok(());
        }
        let shown: String = name.chars().take(100).collect();
        let reason = format!("the value of {shown} has {bytes} bytes, and milena.max.config.value.bytes is {max}");
        Err(Refusal::new(ErrorCode::InvalidConfig, reason))
    }

    /// Checks the name and the number of resources that get configs of their own: groups and subscriptions.
    pub(super) fn check_config_resource(
        &self,
        name: &str,
        present: usize,
        (setting, max): (&str, usize),
    ) -> Result<(), Refusal> {
        let name_bytes_max = self.config().limits.name_bytes;
        if name.len() > name_bytes_max {
            let bytes = name.len();
            let reason = format!("the name has {bytes} bytes, and milena.max.name.bytes is {name_bytes_max}");
            return Err(Refusal::new(ErrorCode::InvalidRequest, reason));
        }
        if present >= max {
            return Err(self.refuse(format!("{present} have configs already, and {setting} is {max}")));
        }
        Ok(())
    }

    /// Checks the number and the names of new ACLs, besides those that are present.
    pub(super) fn check_room_for_acls<'a>(
        &self,
        present: usize,
        added: impl Iterator<Item = &'a Acl>,
    ) -> Result<(), Refusal> {
        let (acls_max, name_bytes_max) = (self.config().limits.acls, self.config().limits.name_bytes);
        let mut total = present;
        for acl in added {
            total += 1;
            let names = [&acl.resource_name, &acl.principal, &acl.host];
            let bytes = names.map(|name| name.len()).into_iter().max().unwrap_or(0);
            if bytes > name_bytes_max {
                let reason = format!("a name has {bytes} bytes, and milena.max.name.bytes is {name_bytes_max}");
                return Err(Refusal::new(ErrorCode::InvalidRequest, reason));
            }
        }
        if total > acls_max {
            let reason = format!("there are {present} ACLs, {total} are too many, and milena.max.acls is {acls_max}");
            return Err(self.refuse(reason));
        }
        Ok(())
    }

    /// The refusal of a request that exceeds a limit, which is logged.
    fn refuse(&self, reason: String) -> Refusal {
        self.limit_log.refused(&reason, self.now_ms());
        Refusal::new(ErrorCode::PolicyViolation, reason)
    }
}

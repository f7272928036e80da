//! Principals, hosts and operations of new ACLs, with Kafka's forms for producers and consumers.

use anyhow::{Result, anyhow, bail, ensure};
use milena_client::admin::{AclBinding, AclOperation, AclPermission, AclResourceType, PatternType};

use super::{
    codes, operations, principal,
    resource::{Resource, ResourceArguments},
};

const ANY_HOST: &str = "*";

#[derive(clap::Args)]
#[command(next_help_heading = "Rules")]
pub(super) struct RuleArguments {
    /// Principal to allow, as in User:alice or alice; User:* is every user; may be repeated
    #[arg(long, value_name = "PRINCIPAL", value_parser = principal)]
    allow_principal: Vec<String>,
    /// Principal to deny; may be repeated. Denial wins over permission
    #[arg(long, value_name = "PRINCIPAL", value_parser = principal)]
    deny_principal: Vec<String>,
    /// Address from which the allowed principals connect; may be repeated [default: *]
    #[arg(long, value_name = "IP", requires = "allow_principal")]
    allow_host: Vec<String>,
    /// Address from which the denied principals connect; may be repeated [default: *]
    #[arg(long, value_name = "IP", requires = "deny_principal")]
    deny_host: Vec<String>,
    /// Operation, such as read or describe-configs; may be repeated [default: all]
    #[arg(long, value_name = "OPERATION", value_parser = codes::operation)]
    operation: Vec<AclOperation>,
    /// The rights of a producer: write, describe and create on --topic, write and describe on --transactional-id
    #[arg(long, conflicts_with = "operation")]
    producer: bool,
    /// With --producer: also idempotent-write on the cluster, for brokers before Kafka 3.0
    #[arg(long, requires = "producer")]
    idempotent: bool,
    /// The rights of a consumer: read and describe on --topic, read on --group
    #[arg(long, conflicts_with = "operation")]
    consumer: bool,
}

/// The operations on one resource.
type Target = (Resource, Vec<AclOperation>);

impl RuleArguments {
    /// Whether any principal is given.
    pub(super) fn names_principals(&self) -> bool {
        !self.allow_principal.is_empty() || !self.deny_principal.is_empty()
    }

    /// Whether a form for producers or consumers is given.
    pub(super) fn has_form(&self) -> bool {
        self.producer || self.consumer
    }

    /// The given operations.
    pub(super) fn operations(&self) -> &[AclOperation] {
        &self.operation
    }

    /// The ACLs of all principals on all resources.
    pub(super) fn bindings(&self, resources: &ResourceArguments, pattern: PatternType) -> Result<Vec<AclBinding>> {
        ensure!(
            self.names_principals(),
            "no principal given; use --allow-principal or --deny-principal, as in --allow-principal User:alice"
        );
        let targets = self.targets(resources)?;
        let mut bindings = vec![];
        for (permission, principals, hosts) in [
            (AclPermission::Allow, &self.allow_principal, &self.allow_host),
            (AclPermission::Deny, &self.deny_principal, &self.deny_host),
        ] {
            let any = [ANY_HOST.to_owned()];
            let hosts = if hosts.is_empty() { &any[..] } else { hosts };
            for principal in principals {
                for host in hosts {
                    let on_all = targets.iter().flat_map(|target| on(target, pattern));
                    bindings.extend(on_all.map(|acl| AclBinding {
                        principal: principal.as_str().into(),
                        host: host.as_str().into(),
                        permission,
                        ..acl
                    }));
                }
            }
        }
        bindings.sort_unstable();
        bindings.dedup();
        Ok(bindings)
    }

    fn targets(&self, resources: &ResourceArguments) -> Result<Vec<Target>> {
        if self.has_form() {
            return self.form(resources);
        }
        let all = resources.all();
        ensure!(
            !all.is_empty(),
            "no resource given; use --topic, --group, --cluster, --transactional-id, --delegation-token or \
             --user-principal"
        );
        let operations = match self.operation.as_slice() {
            [] => vec![AclOperation::All],
            some => some.to_vec(),
        };
        for (kind, _) in &all {
            for operation in &operations {
                if *operation == AclOperation::Any {
                    bail!("the operation any is for filters; use all");
                }
                operations::check(*kind, *operation).map_err(|problem| anyhow!(problem))?;
            }
        }
        Ok(all.into_iter().map(|resource| (resource, operations.clone())).collect())
    }

    /// The operations of producers and consumers.
    fn form(&self, resources: &ResourceArguments) -> Result<Vec<Target>> {
        use AclOperation::{Create, Describe, IdempotentWrite, Read, Write};
        let (topics, groups) = (
            resources.of(AclResourceType::Topic),
            resources.of(AclResourceType::Group),
        );
        let ids = resources.of(AclResourceType::TransactionalId);
        let others = resources.all().len() - topics.len() - groups.len() - ids.len();
        ensure!(!topics.is_empty(), "--producer and --consumer need a --topic");
        ensure!(
            others == 0,
            "--producer and --consumer are for --topic, --group and --transactional-id; create the others in a second \
             command"
        );
        ensure!(!self.consumer || !groups.is_empty(), "--consumer needs a --group");
        ensure!(self.consumer || groups.is_empty(), "--producer takes no --group");
        ensure!(
            self.producer || ids.is_empty(),
            "--consumer takes no --transactional-id"
        );
        let mut targets: Vec<Target> = vec![];
        let mut add = |resources: &[Resource], operations: &[AclOperation]| {
            let with = |resource: &Resource| (resource.clone(), operations.to_vec());
            targets.extend(resources.iter().map(with));
        };
        if self.producer {
            add(&topics, &[Write, Describe, Create]);
            add(&ids, &[Write, Describe]);
        }
        if self.idempotent {
            add(&[ResourceArguments::the_cluster()], &[IdempotentWrite]);
        }
        if self.consumer {
            add(&topics, &[Read, Describe]);
            add(&groups, &[Read]);
        }
        Ok(targets)
    }
}

/// The ACLs of a target, without principal. The cluster has no prefixes.
fn on<'a>(((kind, name), operations): &'a Target, pattern: PatternType) -> impl Iterator<Item = AclBinding> + 'a {
    operations.iter().map(move |operation| AclBinding {
        pattern_type: match kind {
            AclResourceType::Cluster => PatternType::Literal,
            _ => pattern,
        },
        ..AclBinding::allow(*kind, name.as_str(), "", *operation)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        resources: ResourceArguments,
        #[command(flatten)]
        rules: RuleArguments,
    }

    fn bindings(line: &str) -> Result<Vec<String>> {
        let words = Words::try_parse_from(std::iter::once("acl").chain(line.split_whitespace()))?;
        let acls = words.rules.bindings(&words.resources, PatternType::Literal)?;
        Ok(acls.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_producer_writes_describes_and_creates() {
        let acls = bindings("--allow-principal alice --producer --topic letters --transactional-id t").unwrap();
        assert_eq!(
            acls,
            [
                "ALLOW User:alice WRITE on LITERAL TOPIC letters from *",
                "ALLOW User:alice CREATE on LITERAL TOPIC letters from *",
                "ALLOW User:alice DESCRIBE on LITERAL TOPIC letters from *",
                "ALLOW User:alice WRITE on LITERAL TRANSACTIONAL_ID t from *",
                "ALLOW User:alice DESCRIBE on LITERAL TRANSACTIONAL_ID t from *",
            ]
        );
    }

    #[test]
    fn a_consumer_reads_a_topic_in_a_group() {
        let acls = bindings("--allow-principal User:bob --consumer --topic letters --group readers").unwrap();
        assert_eq!(
            acls,
            [
                "ALLOW User:bob READ on LITERAL TOPIC letters from *",
                "ALLOW User:bob DESCRIBE on LITERAL TOPIC letters from *",
                "ALLOW User:bob READ on LITERAL GROUP readers from *",
            ]
        );
        let both = bindings("--allow-principal bob --consumer --producer --topic letters --group readers").unwrap();
        assert_eq!(both.len(), 5, "{both:?}");
    }

    #[test]
    fn principals_hosts_and_operations_multiply() {
        let acls = bindings(
            "--allow-principal a --allow-host 10.0.0.1 --allow-host 10.0.0.2 --deny-principal b --operation read \
             --operation write --topic t",
        );
        let acls = acls.unwrap();
        assert_eq!(acls.len(), 6, "{acls:?}");
        assert!(acls.contains(&"DENY User:b WRITE on LITERAL TOPIC t from *".to_owned()));
    }

    #[test]
    fn an_incomplete_rule_is_refused() {
        for (line, reason) in [
            ("--topic t", "no principal given"),
            ("--allow-principal a", "no resource given"),
            ("--allow-principal a --consumer --topic t", "needs a --group"),
            ("--allow-principal a --producer --group g", "need a --topic"),
            ("--allow-principal a --producer --topic t --group g", "takes no --group"),
            ("--allow-principal a --producer --topic t --cluster", "second command"),
            ("--allow-principal a --operation write --group g", "does not exist for"),
            ("--allow-principal a --operation any --group g", "for filters"),
        ] {
            let error = bindings(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}

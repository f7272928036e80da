//! Resources on the command line of `milena acl`.

use milena_client::admin::AclResourceType;

/// The name of the one cluster resource.
const CLUSTER: &str = "kafka-cluster";

#[derive(clap::Args)]
#[command(next_help_heading = "Resources")]
pub(super) struct ResourceArguments {
    /// Topic; * is all topics; may be repeated
    #[arg(short, long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// Consumer group; * is all groups; may be repeated
    #[arg(short, long, value_name = "GROUP")]
    group: Vec<String>,
    /// The cluster
    #[arg(long)]
    cluster: bool,
    /// Transactional id; * is all of them; may be repeated
    #[arg(long, value_name = "ID")]
    transactional_id: Vec<String>,
    /// Delegation token; may be repeated
    #[arg(long, value_name = "ID")]
    delegation_token: Vec<String>,
    /// User whose delegation tokens are managed, as in User:alice; may be repeated
    #[arg(long, value_name = "PRINCIPAL", value_parser = super::principal)]
    user_principal: Vec<String>,
}

/// A resource and its name.
pub(super) type Resource = (AclResourceType, String);

impl ResourceArguments {
    /// All named resources.
    pub(super) fn all(&self) -> Vec<Resource> {
        let cluster = self.cluster.then(|| CLUSTER.to_owned());
        let named = |kind: AclResourceType, names: &[String]| {
            let resources = names.iter().map(|name| (kind, name.clone()));
            resources.collect::<Vec<_>>()
        };
        [
            named(AclResourceType::Topic, &self.topic),
            named(AclResourceType::Group, &self.group),
            named(AclResourceType::Cluster, cluster.as_slice()),
            named(AclResourceType::TransactionalId, &self.transactional_id),
            named(AclResourceType::DelegationToken, &self.delegation_token),
            named(AclResourceType::User, &self.user_principal),
        ]
        .concat()
    }

    /// The named resources of one type.
    pub(super) fn of(&self, kind: AclResourceType) -> Vec<Resource> {
        self.all().into_iter().filter(|(of, _)| *of == kind).collect()
    }

    /// The cluster, whether it is named or not.
    pub(super) fn the_cluster() -> Resource {
        (AclResourceType::Cluster, CLUSTER.to_owned())
    }
}

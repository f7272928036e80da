//! The rights that each API needs. An API without a row here does not compile into the table of APIs.
//!
//! Rights on the whole cluster alone are checked before the handler. All others are checked by the handlers, and a check
//! that is not listed here violates an invariant.

use milena_machines::authorizer::{
    Operation::{self, *},
    ResourceType::{self, Cluster, Group, Topic, TransactionalId},
};
use milena_wire::api::ApiKey;

/// The rights that an API needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Everyone may use it.
    None,
    /// One operation on the cluster, for all of the request.
    Cluster(Operation),
    /// Operations on resources that the request names or the response shows. The handler checks them.
    Resources(&'static [(Operation, ResourceType)]),
}

impl Rights {
    pub(crate) fn include(self, operation: Operation, resource_type: ResourceType) -> bool {
        match self {
            Self::None => false,
            Self::Cluster(own) => (own, Cluster) == (operation, resource_type),
            Self::Resources(own) => own.contains(&(operation, resource_type)),
        }
    }
}

/// The rights that an API needs; `None` if it has no row.
pub(crate) const fn of(key: ApiKey) -> Option<Rights> {
    use Rights::Resources;
    Some(match key {
        // Data.
        ApiKey::Produce => Resources(&[(Write, TransactionalId), (Write, Topic)]),
        // A follower needs the cluster.
        ApiKey::Fetch => Resources(&[(Read, Topic), (ClusterAction, Cluster)]),
        ApiKey::ListOffsets => Resources(&[(Describe, Topic)]),
        ApiKey::OffsetForLeaderEpoch => Resources(&[(ClusterAction, Cluster), (Describe, Topic)]),
        ApiKey::Metadata => Resources(&[
            (Describe, Topic),
            (Create, Cluster),
            (Create, Topic),
            (Describe, Cluster),
        ]),
        ApiKey::DescribeTopicPartitions => Resources(&[(Describe, Topic)]),

        // Topics.
        ApiKey::CreateTopics => Resources(&[(Create, Cluster), (Create, Topic), (DescribeConfigs, Topic)]),
        ApiKey::CreatePartitions => Resources(&[(Alter, Topic)]),
        ApiKey::DeleteTopics => Resources(&[(Delete, Cluster), (Describe, Topic), (Delete, Topic)]),
        ApiKey::DeleteRecords => Resources(&[(Delete, Topic)]),
        ApiKey::DescribeProducers => Resources(&[(Read, Topic)]),

        // Groups.
        ApiKey::FindCoordinator => {
            Resources(&[(Describe, Group), (Describe, TransactionalId), (ClusterAction, Cluster)])
        }
        ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::LeaveGroup => Resources(&[(Read, Group)]),
        // Topics: of the subscription, and those that regular expressions of the group match.
        ApiKey::ConsumerGroupHeartbeat | ApiKey::JoinGroup => Resources(&[(Read, Group), (Describe, Topic)]),
        ApiKey::OffsetCommit => Resources(&[(Read, Group), (Read, Topic)]),
        ApiKey::OffsetFetch => Resources(&[(Describe, Group), (Describe, Topic)]),
        ApiKey::OffsetDelete => Resources(&[(Delete, Group), (Read, Topic)]),
        ApiKey::DescribeGroups => Resources(&[(Describe, Group)]),
        ApiKey::ConsumerGroupDescribe => Resources(&[(Describe, Group), (Describe, Topic)]),
        ApiKey::ListGroups => Resources(&[(Describe, Cluster), (Describe, Group)]),
        ApiKey::DeleteGroups => Resources(&[(Delete, Group)]),

        // Transactions.
        ApiKey::InitProducerId => Resources(&[
            (Write, TransactionalId),
            (TwoPhaseCommit, TransactionalId),
            (IdempotentWrite, Cluster),
            (Write, Topic),
        ]),
        // Between brokers it needs the cluster.
        ApiKey::AddPartitionsToTxn => Resources(&[(Write, TransactionalId), (Write, Topic), (ClusterAction, Cluster)]),
        ApiKey::AddOffsetsToTxn => Resources(&[(Write, TransactionalId), (Read, Group)]),
        ApiKey::TxnOffsetCommit => Resources(&[(Write, TransactionalId), (Read, Group), (Read, Topic)]),
        ApiKey::EndTxn => Resources(&[(Write, TransactionalId)]),
        ApiKey::WriteTxnMarkers => Resources(&[(Alter, Cluster), (ClusterAction, Cluster)]),
        ApiKey::DescribeTransactions => Resources(&[(Describe, TransactionalId), (Describe, Topic)]),
        ApiKey::ListTransactions => Resources(&[(Describe, TransactionalId)]),

        _ => return of_administration(key),
    })
}

/// The rights that APIs for settings and the cluster need.
const fn of_administration(key: ApiKey) -> Option<Rights> {
    use Rights::Resources;
    Some(match key {
        ApiKey::DescribeConfigs => Resources(&[
            (DescribeConfigs, Topic),
            (DescribeConfigs, Group),
            (DescribeConfigs, Cluster),
        ]),
        ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs => {
            Resources(&[(AlterConfigs, Topic), (AlterConfigs, Group), (AlterConfigs, Cluster)])
        }
        ApiKey::ListConfigResources | ApiKey::DescribeClientQuotas => Rights::Cluster(DescribeConfigs),
        ApiKey::AlterClientQuotas => Rights::Cluster(AlterConfigs),

        ApiKey::DescribeAcls
        | ApiKey::DescribeQuorum
        | ApiKey::DescribeUserScramCredentials
        | ApiKey::ListPartitionReassignments => Rights::Cluster(Describe),
        ApiKey::AlterReplicaLogDirs
        | ApiKey::AlterUserScramCredentials
        | ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::UnregisterBroker
        | ApiKey::UpdateFeatures => Rights::Cluster(Alter),
        // The error is at the top and in all rows.
        ApiKey::AlterPartitionReassignments | ApiKey::ElectLeaders => Resources(&[(Alter, Cluster)]),
        // The response has the operations on the cluster, if the client may describe it. Directories have one error for all.
        ApiKey::DescribeCluster | ApiKey::DescribeLogDirs => Resources(&[(Describe, Cluster)]),

        ApiKey::ApiVersions
        | ApiKey::GetTelemetrySubscriptions
        | ApiKey::PushTelemetry
        | ApiKey::SaslAuthenticate
        | ApiKey::SaslHandshake => Rights::None,

        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::APIS;

    #[test]
    fn every_api_has_a_row() {
        for api in APIS {
            assert!(of(api.key).is_some(), "handlers/rights.rs has no row for {}", api.key);
        }
    }

    #[test]
    fn a_right_is_listed_under_its_own_resource_type() {
        let fetch = of(ApiKey::Fetch).unwrap();
        assert!(fetch.include(Read, Topic) && !fetch.include(Read, Group) && !fetch.include(Write, Topic));
        let acls = of(ApiKey::CreateAcls).unwrap();
        assert!(acls.include(Alter, Cluster) && !acls.include(Alter, Topic));
        assert!(!of(ApiKey::ApiVersions).unwrap().include(Describe, Cluster));
    }
}

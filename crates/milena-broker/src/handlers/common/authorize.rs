//! The rights of the client that sent a request. Without an authorizer it may do everything.
//!
//! A handler asks before it looks whether a resource exists, so that the response does not tell.

use bytestring::ByteString;
use milena_invariant::invariant;
use milena_machines::{
    authorizer::{
        CLUSTER,
        Operation::{self, *},
        OperationSet, ResourceType,
    },
    group::VisibleTopics,
};
use milena_wire::{api::ApiKey, errors::ErrorCode, message::Request};

use super::{Outcome, RequestContext};
use crate::{authorizer::Check, handlers::rights};

/// Kafka's value where the client did not request the operations.
pub(crate) const NOT_REQUESTED: i32 = i32::MIN;

/// The operations that a resource of each type has, in responses.
const OF_TOPIC: OperationSet = OperationSet::of(&[
    Read,
    Write,
    Create,
    Delete,
    Alter,
    Describe,
    DescribeConfigs,
    AlterConfigs,
]);
const OF_GROUP: OperationSet = OperationSet::of(&[Read, Delete, Describe, DescribeConfigs, AlterConfigs]);
const OF_CLUSTER: OperationSet = OperationSet::of(&[
    Create,
    Alter,
    Describe,
    ClusterAction,
    DescribeConfigs,
    AlterConfigs,
    IdempotentWrite,
]);
const OF_TRANSACTIONAL_ID: OperationSet = OperationSet::of(&[Write, Describe, TwoPhaseCommit]);

impl RequestContext<'_> {
    /// Whether the client may do an operation on a resource that it has named. A denial is logged.
    pub(crate) fn authorize(&self, operation: Operation, resource_type: ResourceType, name: &ByteString) -> bool {
        self.decide(operation, resource_type, name, true)
    }

    /// Whether the client may do an operation, where the response has less without it but no error.
    pub(crate) fn authorize_silently(
        &self,
        operation: Operation,
        resource_type: ResourceType,
        name: &ByteString,
    ) -> bool {
        self.decide(operation, resource_type, name, false)
    }

    pub(crate) fn authorize_topic(&self, operation: Operation, name: &ByteString) -> bool {
        self.authorize(operation, ResourceType::Topic, name)
    }

    pub(crate) fn authorize_cluster(&self, operation: Operation) -> bool {
        self.authorize(operation, ResourceType::Cluster, &CLUSTER)
    }

    /// Whether the client may do an operation on the cluster, where rights on single resources would do too.
    pub(crate) fn authorize_cluster_silently(&self, operation: Operation) -> bool {
        self.authorize_silently(operation, ResourceType::Cluster, &CLUSTER)
    }

    /// Refuses a client that may not do an operation on a group.
    pub(crate) fn check_group(&self, operation: Operation, group_id: &ByteString) -> Result<(), ErrorCode> {
        match self.authorize(operation, ResourceType::Group, group_id) {
            true => Ok(()),
            false => Err(ErrorCode::GroupAuthorizationFailed),
        }
    }

    /// Refuses a client that may not do an operation on a transactional id.
    pub(crate) fn check_transactional_id(&self, operation: Operation, id: &ByteString) -> Result<(), ErrorCode> {
        match self.authorize(operation, ResourceType::TransactionalId, id) {
            true => Ok(()),
            false => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        }
    }

    /// Whether the client may do an operation on any topic.
    pub(crate) fn authorize_any_topic(&self, operation: Operation) -> bool {
        self.check_listed(operation, ResourceType::Topic);
        let authorizer = self.node.authorizer.as_ref();
        authorizer.is_none_or(|authorizer| authorizer.allows_on_any(self.peer, operation, ResourceType::Topic))
    }

    /// The operations that the client may do on a resource, as responses have them.
    pub(crate) fn authorized_operations(&self, resource_type: ResourceType, name: &ByteString) -> i32 {
        let supported = match resource_type {
            ResourceType::Topic => OF_TOPIC,
            ResourceType::Group => OF_GROUP,
            ResourceType::Cluster => OF_CLUSTER,
            ResourceType::TransactionalId => OF_TRANSACTIONAL_ID,
            ResourceType::DelegationToken | ResourceType::User => OperationSet::NONE,
        };
        let allowed = match &self.node.authorizer {
            Some(authorizer) => authorizer.operations(self.peer, resource_type, name),
            None => OperationSet::ALL,
        };
        allowed.intersection(supported).bits()
    }

    /// The operations on the cluster: none if the client may not describe it.
    pub(crate) fn cluster_operations(&self, is_requested: bool) -> i32 {
        match is_requested {
            false => NOT_REQUESTED,
            true if self.authorize_cluster(Describe) => self.authorized_operations(ResourceType::Cluster, &CLUSTER),
            true => 0,
        }
    }

    /// The topics that regular expressions of a member may match, for requests that may make a group match them.
    pub(super) fn visible_topics(&self) -> VisibleTopics {
        let matches = matches!(self.request.key, ApiKey::ConsumerGroupHeartbeat | ApiKey::JoinGroup);
        if self.node.authorizer.is_none() || !matches {
            return VisibleTopics::default();
        }
        let detached = self.detach();
        VisibleTopics::new(move |topic| detached.cx().authorize_silently(Describe, ResourceType::Topic, topic))
    }

    /// The outcome of a request that is refused as a whole.
    pub(crate) fn refuse<R: Request, T: From<R::Response>>(&self, body: &R, error: ErrorCode) -> Outcome<T> {
        match body.error_response(self.request.version, error) {
            Some(response) => Outcome::Ready(response.into()),
            None => Outcome::Close(format!("{} is refused: {error}", self.request.key)),
        }
    }

    /// Whether the client has the right on the cluster that the API needs for the whole request, if it needs one.
    pub(super) fn has_right_to_api(&self) -> bool {
        match rights::of(self.request.key) {
            Some(rights::Rights::Cluster(operation)) => self.authorize_cluster(operation),
            _ => true,
        }
    }

    fn decide(&self, operation: Operation, resource_type: ResourceType, name: &ByteString, is_explicit: bool) -> bool {
        self.check_listed(operation, resource_type);
        let Some(authorizer) = &self.node.authorizer else {
            return true;
        };
        let check = Check {
            api: self.request.key,
            operation,
            resource_type,
            name,
            is_explicit,
        };
        authorizer.allows(self.peer, &check)
    }

    /// The table of rights is complete: it has every right that a handler asks for.
    fn check_listed(&self, operation: Operation, resource_type: ResourceType) {
        let rights = rights::of(self.request.key);
        invariant!(
            rights.is_some_and(|rights| rights.include(operation, resource_type)),
            "the_table_of_rights_has_every_right_that_is_checked"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_each_type_are_kafkas() {
        assert_eq!(OF_TOPIC.bits(), 3576);
        assert_eq!(OF_GROUP.bits(), 3400);
        assert_eq!(OF_CLUSTER.bits(), 8096);
        assert_eq!(OF_TRANSACTIONAL_ID.bits(), 1 << 4 | 1 << 8 | 1 << 15);
    }
}

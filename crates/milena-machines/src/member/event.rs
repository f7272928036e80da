//! Events of a group member, for the application.

use bytestring::ByteString;
use milena_wire::{api::ApiKey, decode::DecodeError, encode::EncodeError, errors::ErrorCode};

use crate::TopicPartition;

/// A change of the application's partitions. Lists are sorted.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberEvent {
    /// These go to another member. They are still owned while the listener runs: the last moment to commit. May be
    /// empty.
    Revoked(Vec<TopicPartition>),
    /// These are gone, and may have another owner already. Nothing can be committed.
    Lost(Vec<TopicPartition>),
    /// `added` are new, `all` is the whole assignment from now on. `added` may be empty.
    Assigned {
        added: Vec<TopicPartition>,
        all: Vec<TopicPartition>,
    },
    /// An error that the application should see. The member tries again.
    Error(MemberError),
    /// The member is ended, and owns no partition.
    Fatal(MemberError),
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MemberError {
    #[error("another consumer has joined the group with the same group.instance.id {instance_id}")]
    FencedInstance { instance_id: ByteString },
    #[error(
        "group.instance.id {instance_id} is in use by another consumer of the group, or by one that ended without \
         leaving and whose session has not expired yet"
    )]
    UnreleasedInstance { instance_id: ByteString },
    #[error(
        "the cluster does not support group.protocol=consumer: set group.protocol=classic, or use Kafka 4.0 or newer"
    )]
    ConsumerProtocolUnsupported,
    #[error("the cluster does not support subscriptions by a pattern on the broker: it needs Kafka 4.0 or newer")]
    PatternUnsupported,
    #[error("subscriptions by a pattern on the broker need group.protocol=consumer; match on the client instead")]
    PatternNeedsConsumerProtocol,
    #[error("the cluster does not support group.instance.id: unset it, or use Kafka 2.3 or newer")]
    InstanceUnsupported,
    #[error("{api:?} was refused with {error}{}", detail(message))]
    Refused {
        api: ApiKey,
        error: ErrorCode,
        message: Option<ByteString>,
    },
    #[error("the group is of the protocol type {found}, not consumer")]
    OtherProtocolType { found: ByteString },
    #[error("the coordinator chose the assignor {name:?}, which partition.assignment.strategy does not name")]
    UnknownAssignor { name: ByteString },
    #[error("the subscription of member {member_id} cannot be read: {error}")]
    BadSubscription { member_id: ByteString, error: DecodeError },
    #[error("the assignment from the leader of the group cannot be read: {0}")]
    BadAssignment(DecodeError),
    #[error("the subscription of this member is too long for the protocol: {0}")]
    Unwritable(EncodeError),
    #[error(
        "the assignor {assignor} is cooperative but gives partitions to one member that another still owns: {}",
        list(partitions)
    )]
    AssignorMovesOwned {
        assignor: ByteString,
        partitions: Vec<TopicPartition>,
    },
}

fn detail(message: &Option<ByteString>) -> String {
    message
        .as_ref()
        .map_or_else(String::new, |message| format!(": {message}"))
}

fn list(partitions: &[TopicPartition]) -> String {
    let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    names.join(", ")
}

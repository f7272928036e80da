//! Records of `__consumer_offsets`, in Kafka's formats.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    decode::DecodeError,
    encode::EncodeError,
    message::Message,
    messages::{
        ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
        ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
        ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
        ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
        ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, GroupMetadataKey,
        GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
    },
    prefixed::{decode_typed, decode_versioned, encode_typed, encode_versioned, record_type},
};

use crate::StoredRecord;

/// A change to a group. Without a value the key is deleted.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupRecord {
    Offset {
        key: OffsetKey,
        value: Option<OffsetCommitValue>,
    },
    /// The whole state of a group of the classic protocol.
    Classic {
        group_id: ByteString,
        value: Option<GroupMetadataValue>,
    },
    ConsumerGroup {
        group_id: ByteString,
        value: Option<ConsumerGroupMetadataValue>,
    },
    Member {
        group_id: ByteString,
        member_id: ByteString,
        value: Option<ConsumerGroupMemberMetadataValue>,
    },
    Regex {
        group_id: ByteString,
        regex: ByteString,
        value: Option<ConsumerGroupRegularExpressionValue>,
    },
    TargetEpoch {
        group_id: ByteString,
        value: Option<ConsumerGroupTargetAssignmentMetadataValue>,
    },
    TargetAssignment {
        group_id: ByteString,
        member_id: ByteString,
        value: Option<ConsumerGroupTargetAssignmentMemberValue>,
    },
    CurrentAssignment {
        group_id: ByteString,
        member_id: ByteString,
        value: Option<ConsumerGroupCurrentMemberAssignmentValue>,
    },
}

/// The key of a committed offset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetKey {
    pub group_id: ByteString,
    pub topic: ByteString,
    pub partition: i32,
}

mod types {
    pub(super) const LEGACY_OFFSET: i16 = 0;
    pub(super) const OFFSET: i16 = 1;
    pub(super) const CLASSIC: i16 = 2;
    pub(super) const CONSUMER_GROUP: i16 = 3;
    pub(super) const MEMBER: i16 = 5;
    pub(super) const TARGET_EPOCH: i16 = 6;
    pub(super) const TARGET_ASSIGNMENT: i16 = 7;
    pub(super) const CURRENT_ASSIGNMENT: i16 = 8;
    pub(super) const REGEX: i16 = 16;
}

/// The versions that Kafka 4.3 writes.
const OFFSET_VERSION: i16 = 4;
const CLASSIC_VERSION: i16 = 3;

impl GroupRecord {
    pub fn encode(&self) -> Result<StoredRecord, EncodeError> {
        match self {
            Self::Offset { key, value } => {
                let stored = OffsetCommitKey {
                    group: key.group_id.clone(),
                    topic: key.topic.clone(),
                    partition: key.partition,
                };
                stored_as(
                    types::OFFSET,
                    &stored,
                    value.as_ref(),
                    value.as_ref().map_or(0, offset_version),
                )
            }
            Self::Classic { group_id, value } => {
                let key = GroupMetadataKey {
                    group: group_id.clone(),
                };
                stored_as(types::CLASSIC, &key, value.as_ref(), CLASSIC_VERSION)
            }
            record => record.encode_consumer(),
        }
    }

    /// The records of the consumer protocol, whose values have one version.
    fn encode_consumer(&self) -> Result<StoredRecord, EncodeError> {
        match self {
            Self::Offset { .. } | Self::Classic { .. } => self.encode(),
            Self::ConsumerGroup { group_id, value } => {
                let key = ConsumerGroupMetadataKey {
                    group_id: group_id.clone(),
                };
                stored_as(types::CONSUMER_GROUP, &key, value.as_ref(), 0)
            }
            Self::Member {
                group_id,
                member_id,
                value,
            } => {
                let (group_id, member_id) = (group_id.clone(), member_id.clone());
                let key = ConsumerGroupMemberMetadataKey { group_id, member_id };
                stored_as(types::MEMBER, &key, value.as_ref(), 0)
            }
            Self::Regex { group_id, regex, value } => {
                let (group_id, regular_expression) = (group_id.clone(), regex.clone());
                let key = ConsumerGroupRegularExpressionKey {
                    group_id,
                    regular_expression,
                };
                stored_as(types::REGEX, &key, value.as_ref(), 0)
            }
            Self::TargetEpoch { group_id, value } => {
                let key = ConsumerGroupTargetAssignmentMetadataKey {
                    group_id: group_id.clone(),
                };
                stored_as(types::TARGET_EPOCH, &key, value.as_ref(), 0)
            }
            Self::TargetAssignment {
                group_id,
                member_id,
                value,
            } => {
                let (group_id, member_id) = (group_id.clone(), member_id.clone());
                let key = ConsumerGroupTargetAssignmentMemberKey { group_id, member_id };
                stored_as(types::TARGET_ASSIGNMENT, &key, value.as_ref(), 0)
            }
            Self::CurrentAssignment {
                group_id,
                member_id,
                value,
            } => {
                let (group_id, member_id) = (group_id.clone(), member_id.clone());
                let key = ConsumerGroupCurrentMemberAssignmentKey { group_id, member_id };
                stored_as(types::CURRENT_ASSIGNMENT, &key, value.as_ref(), 0)
            }
        }
    }

    /// Decodes a stored record; `None` if its type is unknown.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match record_type(key)? {
            types::LEGACY_OFFSET | types::OFFSET => {
                let key: OffsetCommitKey = decode_typed(key)?;
                let key = OffsetKey {
                    group_id: key.group,
                    topic: key.topic,
                    partition: key.partition,
                };
                Self::Offset {
                    key,
                    value: versioned(value)?,
                }
            }
            types::CLASSIC => {
                let key: GroupMetadataKey = decode_typed(key)?;
                Self::Classic {
                    group_id: key.group,
                    value: versioned(value)?,
                }
            }
            types::CONSUMER_GROUP => {
                let key: ConsumerGroupMetadataKey = decode_typed(key)?;
                Self::ConsumerGroup {
                    group_id: key.group_id,
                    value: versioned(value)?,
                }
            }
            types::MEMBER => {
                let ConsumerGroupMemberMetadataKey { group_id, member_id } = decode_typed(key)?;
                Self::Member {
                    group_id,
                    member_id,
                    value: versioned(value)?,
                }
            }
            types::REGEX => {
                let key: ConsumerGroupRegularExpressionKey = decode_typed(key)?;
                let (group_id, regex) = (key.group_id, key.regular_expression);
                Self::Regex {
                    group_id,
                    regex,
                    value: versioned(value)?,
                }
            }
            types::TARGET_EPOCH => {
                let key: ConsumerGroupTargetAssignmentMetadataKey = decode_typed(key)?;
                Self::TargetEpoch {
                    group_id: key.group_id,
                    value: versioned(value)?,
                }
            }
            types::TARGET_ASSIGNMENT => {
                let ConsumerGroupTargetAssignmentMemberKey { group_id, member_id } = decode_typed(key)?;
                Self::TargetAssignment {
                    group_id,
                    member_id,
                    value: versioned(value)?,
                }
            }
            types::CURRENT_ASSIGNMENT => {
                let ConsumerGroupCurrentMemberAssignmentKey { group_id, member_id } = decode_typed(key)?;
                Self::CurrentAssignment {
                    group_id,
                    member_id,
                    value: versioned(value)?,
                }
            }
            _ => return Ok(None),
        }))
    }
}

/// Only version 1 has a field for an expiry of the offset's own.
fn offset_version(value: &OffsetCommitValue) -> i16 {
    if value.expire_timestamp == -1 {
        OFFSET_VERSION
    } else {
        1
    }
}

fn stored_as<K: Message, V: Message>(
    record_type: i16,
    key: &K,
    value: Option<&V>,
    version: i16,
) -> Result<StoredRecord, EncodeError> {
    Ok(StoredRecord {
        key: encode_typed(record_type, key)?,
        value: value.map(|value| encode_versioned(value, version)).transpose()?,
    })
}

fn versioned<M: Message>(value: Option<&Bytes>) -> Result<Option<M>, DecodeError> {
    value.map(decode_versioned).transpose()
}

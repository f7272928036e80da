//! Limits of what producers can make a coordinator keep.

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

use super::{TransactionCoordinator, TransactionRequest};
use crate::{TopicPartition, group::LimitExceeded};

impl TransactionCoordinator {
    /// The number of transactional ids.
    pub fn ids_len(&self) -> usize {
        self.transactions.len()
    }

    /// Checks that a request keeps to the limits. `may_create` tells whether there may be one more transactional id.
    pub fn check_limits(&self, request: &TransactionRequest, may_create: bool) -> Result<(), LimitExceeded> {
        let TransactionRequest::InitProducerId(init) = request else {
            return Ok(());
        };
        let Some(id) = &init.transactional_id else {
            return Ok(());
        };
        let (len, max) = (id.len(), self.config.name_bytes_max);
        if len > max {
            let text = format!("a transactional id has {len} bytes, more than milena.max.name.bytes={max} allows");
            return Err(LimitExceeded::new(ErrorCode::InvalidRequest, text));
        }
        if !may_create && !self.transactions.contains_key(id) {
            let text = format!(
                "transactional id {id} cannot be created: there are as many as milena.max.transactional.ids allows"
            );
            return Err(LimitExceeded::new(ErrorCode::PolicyViolation, text));
        }
        Ok(())
    }
}

impl TransactionRequest {
    /// A copy of a request whose parts are kept. Its names are slices of a frame, which would stay in memory with them.
    #[must_use]
    pub fn detached(self) -> Self {
        match self {
            Self::InitProducerId(mut init) => {
                init.transactional_id = init.transactional_id.as_ref().map(copied);
                Self::InitProducerId(init)
            }
            Self::AddPartitions {
                transactional_id,
                producer,
                partitions,
                verify_only: false,
            } => Self::AddPartitions {
                transactional_id: copied(&transactional_id),
                producer,
                partitions: partitions.iter().map(copied_partition).collect(),
                verify_only: false,
            },
            Self::AddOffsets {
                transactional_id,
                producer,
                partition,
            } => Self::AddOffsets {
                transactional_id: copied(&transactional_id),
                producer,
                partition,
            },
            Self::End(mut end) => {
                end.transactional_id = copied(&end.transactional_id);
                Self::End(end)
            }
            other => other,
        }
    }
}

fn copied(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}

fn copied_partition(partition: &TopicPartition) -> TopicPartition {
    TopicPartition {
        topic: copied(&partition.topic),
        partition: partition.partition,
    }
}

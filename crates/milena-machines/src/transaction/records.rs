//! Records of `__transaction_state`, in Kafka's format.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    decode::DecodeError,
    encode::EncodeError,
    messages::{TransactionLogKey, TransactionLogValue},
    prefixed::{decode_typed, decode_versioned, encode_typed, encode_versioned, record_type},
};

use crate::StoredRecord;

/// The state of a transactional id. Without a value the id is removed.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionRecord {
    pub transactional_id: ByteString,
    pub value: Option<TransactionLogValue>,
}

const TRANSACTION_LOG: i16 = 0;

/// The version that Kafka writes from `transaction.version` 1 on: the first with tagged fields.
const VALUE_VERSION: i16 = 1;

impl TransactionRecord {
    pub fn encode(&self) -> Result<StoredRecord, EncodeError> {
        let key = TransactionLogKey {
            transactional_id: self.transactional_id.clone(),
        };
        Ok(StoredRecord {
            key: encode_typed(TRANSACTION_LOG, &key)?,
            value: self
                .value
                .as_ref()
                .map(|value| encode_versioned(value, VALUE_VERSION))
                .transpose()?,
        })
    }

    /// Decodes a stored record; `None` if its type is unknown.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<Self>, DecodeError> {
        if record_type(key)? != TRANSACTION_LOG {
            return Ok(None);
        }
        let TransactionLogKey { transactional_id } = decode_typed(key)?;
        let value = value.map(decode_versioned).transpose()?;
        Ok(Some(Self {
            transactional_id,
            value,
        }))
    }
}

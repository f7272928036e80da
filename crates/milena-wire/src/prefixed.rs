//! Messages with their version or type in front, as in the records of groups, transactions and control batches.

use bytes::Bytes;

use crate::{
    decode::{DecodeError, Reader},
    encode::{EncodeError, Encoder},
    message::Message,
};

/// Writes `version` and then the message: the values of `__consumer_offsets` and `__transaction_state`, a consumer's
/// subscription and assignment, the values of control records.
pub fn encode_versioned<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    encode_behind(version, message, version)
}

/// Decodes the output of [`encode_versioned`]. Bytes after the message are ignored, as in Kafka.
pub fn decode_versioned<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    decode(bytes, |version| version)
}

/// As [`decode_versioned`], but a version newer than ours is read as our newest: a consumer's subscription and
/// assignment only ever grow at their end.
pub fn decode_newest<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    decode(bytes, |version| version.min(M::VERSIONS.max))
}

/// Writes a record type and then the message, at its only version: the keys of `__consumer_offsets` and
/// `__transaction_state`.
pub fn encode_typed<M: Message>(record_type: i16, message: &M) -> Result<Bytes, EncodeError> {
    encode_behind(record_type, message, M::VERSIONS.max)
}

/// Reads the record type of a key; the key itself follows, for [`decode_typed`].
pub fn record_type(bytes: &Bytes) -> Result<i16, DecodeError> {
    Reader::new(bytes, "record type", 0).i16("type")
}

/// Reads the key behind its record type.
pub fn decode_typed<M: Message>(bytes: &Bytes) -> Result<M, DecodeError> {
    decode(bytes, |_| M::VERSIONS.max)
}

fn encode_behind<M: Message>(prefix: i16, message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let size = message.size(version)?;
    let mut encoder = Encoder::contiguous(M::NAME, version, size + size_of::<i16>());
    encoder.i16(prefix);
    message.write(&mut encoder)?;
    Ok(encoder.into_bytes())
}

fn decode<M: Message>(bytes: &Bytes, version: impl FnOnce(i16) -> i16) -> Result<M, DecodeError> {
    let mut reader = Reader::new(bytes, M::NAME, 0);
    let prefix = reader.i16("version")?;
    reader.continue_with(M::NAME, version(prefix));
    reader.check_version(M::VERSIONS)?;
    M::read(&mut reader)
}

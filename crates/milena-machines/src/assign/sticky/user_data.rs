//! User data of the sticky assignors.

use bytes::{BufMut, Bytes, BytesMut};
use milena_wire::decode::{DecodeError, Reader};

use super::super::subscription::{by_topic, flat};
use crate::TopicPartition;

/// `sticky`: the assignment of the member and its generation. `None` if a name is too long to be one.
pub(super) fn encode_assignment(partitions: &[TopicPartition], generation: i32) -> Option<Bytes> {
    let topics = by_topic(partitions);
    let mut bytes = BytesMut::new();
    bytes.put_i32(i32::try_from(topics.len()).ok()?);
    for (topic, numbers) in topics {
        bytes.put_i16(i16::try_from(topic.len()).ok()?);
        bytes.put_slice(topic.as_bytes());
        bytes.put_i32(i32::try_from(numbers.len()).ok()?);
        for number in numbers {
            bytes.put_i32(number);
        }
    }
    bytes.put_i32(generation);
    Some(bytes.freeze())
}

/// Decodes that, or the form before Kafka 2.1: without a generation, which is -1 then. Other data means no partitions,
/// as in Kafka.
pub(super) fn decode_assignment(bytes: &Bytes) -> (Vec<TopicPartition>, i32) {
    let mut reader = Reader::new(bytes, "user data of the sticky assignor", 1);
    let Ok(partitions) = read_partitions(&mut reader) else {
        return (vec![], -1);
    };
    (partitions, reader.i32("generation").unwrap_or(-1))
}

fn read_partitions(reader: &mut Reader<'_>) -> Result<Vec<TopicPartition>, DecodeError> {
    let topics = reader.array(false, "topics", 6, |reader| {
        let topic = reader.string(false, "topic")?;
        let partitions = reader.array(false, "partitions", 4, |reader| reader.i32("partitions"))?;
        Ok((topic, partitions))
    })?;
    Ok(flat(topics.into_iter()))
}

/// `cooperative-sticky`: the generation of the owned partitions.
pub(super) fn encode_generation(generation: i32) -> Bytes {
    Bytes::copy_from_slice(&generation.to_be_bytes())
}

/// Decodes that; -1 if it is missing.
pub(super) fn decode_generation(bytes: &Bytes) -> i32 {
    let mut reader = Reader::new(bytes, "user data of the cooperative sticky assignor", 0);
    reader.i32("generation").unwrap_or(-1)
}

//! The formats of Kafka's own serializers.

use bytes::Bytes;
use milena_wire::Uuid;

use super::{BoxError, Deserializer, NotPlain, Nullable, Source};

/// Reads the formats of Kafka's own serializers, chosen by the target type.
///
/// Text must be UTF-8, where Java's deserializer inserts replacement characters. Numbers are big-endian and have
/// exactly their length. An id ([`Uuid`]) is text with dashes. An `Option` of any of these may be null; `()` must be
/// null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Plain;

impl Deserializer<String> for Plain {
    fn deserialize(&self, source: &Source<'_>) -> Result<String, BoxError> {
        Ok(read_text(source.required()?)?.to_owned())
    }
}

impl Deserializer<Vec<u8>> for Plain {
    fn deserialize(&self, source: &Source<'_>) -> Result<Vec<u8>, BoxError> {
        Ok(source.required()?.to_vec())
    }
}

/// A copy, so that it keeps no batch in memory.
impl Deserializer<Bytes> for Plain {
    fn deserialize(&self, source: &Source<'_>) -> Result<Bytes, BoxError> {
        Ok(Bytes::copy_from_slice(source.required()?))
    }
}

macro_rules! read_number {
    ($($number:ty),*) => {$(
        impl Deserializer<$number> for Plain {
            fn deserialize(&self, source: &Source<'_>) -> Result<$number, BoxError> {
                Ok(<$number>::from_be_bytes(read_exactly(source.required()?)?))
            }
        }
    )*};
}
read_number!(i16, i32, i64, f32, f64);

impl Deserializer<bool> for Plain {
    fn deserialize(&self, source: &Source<'_>) -> Result<bool, BoxError> {
        match read_exactly(source.required()?)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [found] => Err(NotPlain::Bool { found }.into()),
        }
    }
}

impl Deserializer<Uuid> for Plain {
    fn deserialize(&self, source: &Source<'_>) -> Result<Uuid, BoxError> {
        let text = read_text(source.required()?)?;
        Ok(parse_uuid(text).ok_or(NotPlain::Uuid)?)
    }
}

/// Null only, as Kafka's `VoidDeserializer` requires.
impl Deserializer<()> for Plain {
    fn deserialize(&self, source: &Source<'_>) -> Result<(), BoxError> {
        match source.data {
            None => Ok(()),
            Some(data) => Err(NotPlain::Void { found: data.len() }.into()),
        }
    }
}

impl<T> Deserializer<Option<T>> for Plain
where
    Self: Deserializer<T>,
{
    fn deserialize(&self, source: &Source<'_>) -> Result<Option<T>, BoxError> {
        Nullable(Self).deserialize(source)
    }
}

fn read_text(data: &[u8]) -> Result<&str, NotPlain> {
    str::from_utf8(data).map_err(|error| NotPlain::Utf8 {
        valid: error.valid_up_to(),
    })
}

fn read_exactly<const N: usize>(data: &[u8]) -> Result<[u8; N], NotPlain> {
    data.try_into().map_err(|_| NotPlain::Length {
        expected: N,
        found: data.len(),
    })
}

fn parse_uuid(text: &str) -> Option<Uuid> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths = groups.iter().map(|group| group.len());
    if !lengths.eq([8, 4, 4, 4, 12]) || !text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(&groups.concat(), 16).ok()?;
    Some(Uuid::from_bytes(number.to_be_bytes()))
}

//! JSON.

use serde::de::{DeserializeOwned, value::UnitDeserializer};

use super::{BoxError, Deserializer, NullField, Source};

/// Deserializes JSON with `serde`. A null value counts as JSON's `null`, which an `Option` accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json;

impl<T: DeserializeOwned> Deserializer<T> for Json {
    fn deserialize(&self, source: &Source<'_>) -> Result<T, BoxError> {
        let Some(data) = source.data else {
            let nothing: UnitDeserializer<serde::de::value::Error> = UnitDeserializer::new();
            return Ok(T::deserialize(nothing).map_err(|_| NullField { field: source.field })?);
        };
        Ok(serde_json::from_slice(data)?)
    }
}

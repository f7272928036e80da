//! Keys, values and headers as JSON: a string for UTF-8, otherwise an object with base64, so that the two cannot be
//! confused.

use base64::{DecodeError, Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};

/// Bytes to be serialized.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(self.0))?;
        map.end()
    }
}

/// Deserialized bytes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum WrittenText {
    Plain(String),
    Encoded { base64: String },
}

impl WrittenText {
    pub fn bytes(self) -> Result<Vec<u8>, DecodeError> {
        match self {
            Self::Plain(text) => Ok(text.into_bytes()),
            Self::Encoded { base64 } => STANDARD.decode(base64),
        }
    }
}

//! The field of a record that determines its partition.

use bytestring::ByteString;

use super::PartitionInput;

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Key,
    /// A part of the key between separators; the first has index 0.
    KeyPart {
        separator: u8,
        index: usize,
    },
    /// The last header of this name.
    Header(ByteString),
}

impl Field {
    pub fn header(name: impl Into<ByteString>) -> Self {
        Self::Header(name.into())
    }

    /// The value of the field, if the record has it.
    pub fn of<'a>(&self, record: &PartitionInput<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Key => record.key,
            Self::KeyPart { separator, index } => record.key?.split(|byte| byte == separator).nth(*index),
            Self::Header(name) => {
                let mut headers = record.headers.iter().rev();
                headers.find(|header| header.key == name.as_bytes())?.value
            }
        }
    }
}

//! The part of a record that decides.

use bytestring::ByteString;

use super::Unplaced;

/// A part of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Key,
    /// What stands at this place of the key, between separators; the first is 0.
    KeyPart {
        separator: u8,
        place: usize,
    },
    /// The last header of this name.
    Header(ByteString),
}

impl Field {
    pub fn header(name: impl Into<ByteString>) -> Self {
        Self::Header(name.into())
    }

    /// The field of a record that has it.
    pub fn of<'a>(&self, record: &Unplaced<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Key => record.key,
            Self::KeyPart { separator, place } => record.key?.split(|byte| byte == separator).nth(*place),
            Self::Header(name) => {
                let mut headers = record.headers.iter().rev();
                headers.find(|header| header.key == name.as_bytes())?.value
            }
        }
    }
}

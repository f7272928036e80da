//! One list of all messages, so that a test can treat every one alike.

use bytes::Bytes;
use milena_wire::message::{Message, VersionRange};

use crate::arbitrary::{Arbitrary, Source};

/// Operations on a message whose type the test does not name.
pub struct AnyMessage {
    pub name: &'static str,
    pub versions: VersionRange,
    pub reread: fn(&Bytes, i16) -> Result<Reread, String>,
    /// Reads the bytes and drops the value.
    pub decode: fn(&Bytes, i16) -> Result<(), String>,
    /// Encodes an arbitrary value, decodes it, compares; returns the bytes.
    pub round_trip: fn(&mut Source, i16) -> Result<Bytes, String>,
}

/// A message that was read: its Debug form, and its bytes when written again.
pub type Reread = (String, Bytes);

macro_rules! list {
    ($($name:ident),* $(,)?) => {
        pub const ALL: &[AnyMessage] = &[$(any::<milena_wire::messages::$name>()),*];
    };
}

milena_wire::for_each_message!(list);

pub fn find(name: &str) -> &'static AnyMessage {
    ALL.iter()
        .find(|message| message.name == name)
        .unwrap_or_else(|| panic!("{name} is not a message"))
}

const fn any<M: Message + Arbitrary + std::fmt::Debug + PartialEq>() -> AnyMessage {
    AnyMessage {
        name: M::NAME,
        versions: M::VERSIONS,
        reread: reread::<M>,
        decode: |bytes, version| M::decode(bytes, version).map(drop).map_err(|error| error.to_string()),
        round_trip: round_trip::<M>,
    }
}

fn reread<M: Message + std::fmt::Debug>(bytes: &Bytes, version: i16) -> Result<Reread, String> {
    let message = M::decode(bytes, version).map_err(|error| error.to_string())?;
    let written = message.encode(version).map_err(|error| error.to_string())?;
    Ok((format!("{message:?}"), written))
}

fn round_trip<M: Message + Arbitrary + std::fmt::Debug + PartialEq>(
    source: &mut Source,
    version: i16,
) -> Result<Bytes, String> {
    let message = M::arbitrary(source, version);
    let size = message.size(version).map_err(|error| error.to_string())?;
    let bytes = message.encode(version).map_err(|error| error.to_string())?;
    if bytes.len() != size {
        return Err(format!("{size} bytes announced, {} written", bytes.len()));
    }
    match M::decode(&bytes, version) {
        Ok(read) if read == message => Ok(bytes),
        Ok(read) => Err(format!("wrote {message:?}\nread {read:?}")),
        Err(error) => Err(error.to_string()),
    }
}

//! The settings of the broker's side.

use std::fmt;

use bytestring::ByteString;

use crate::sasl::Mechanism;

/// The log-ins that a listener accepts.
#[derive(Clone)]
pub struct SaslServerConfig {
    /// The enabled mechanisms, each with the longest session (`connections.max.reauth.ms`), `None` for no limit.
    pub mechanisms: Vec<(Mechanism, Option<u64>)>,
    /// The key of the salts that unknown SCRAM users get. Clients could tell unknown users by a change of it.
    pub fake_salt_key: [u8; 32],
}

impl SaslServerConfig {
    pub(super) fn enabled(&self, name: &str) -> Option<Mechanism> {
        let mechanism = Mechanism::from_name(name)?;
        self.mechanisms
            .iter()
            .any(|(enabled, _)| *enabled == mechanism)
            .then_some(mechanism)
    }

    pub(super) fn session_ms_max(&self, mechanism: Mechanism) -> Option<u64> {
        let row = self.mechanisms.iter().find(|(enabled, _)| *enabled == mechanism);
        row.and_then(|(_, limit)| *limit).filter(|limit| *limit > 0)
    }

    pub(super) fn names(&self) -> Vec<ByteString> {
        let names = self.mechanisms.iter().map(|(mechanism, _)| mechanism.name());
        names.map(ByteString::from_static).collect()
    }
}

/// Without the key.
impl fmt::Debug for SaslServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslServerConfig")
            .field("mechanisms", &self.mechanisms)
            .finish_non_exhaustive()
    }
}

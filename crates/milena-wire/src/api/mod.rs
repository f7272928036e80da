//! The version table: all APIs, and the versions of each that our client and our broker support.

mod keys;
pub mod versions;

pub use keys::ApiKey;

use std::fmt;

use crate::message::VersionRange;

/// The facts of the definitions about one API.
struct ApiRow {
    name: &'static str,
    /// Without a last version that Kafka still marks as unstable.
    stable: VersionRange,
    flexible_request: Option<i16>,
    flexible_response: Option<i16>,
}

impl ApiKey {
    pub fn from_id(id: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.id() == id)
    }

    pub const fn id(self) -> i16 {
        self as i16
    }

    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The versions our client may use with a broker that has them too; `None` for calls that are not a client's.
    pub const fn client_versions(self) -> Option<VersionRange> {
        let stable = self.row().stable;
        match self {
            // From version 4 on, a request is about several transactions, and only brokers send it.
            Self::AddPartitionsToTxn => Some(VersionRange::new(stable.min, 3)),
            // Brokers keep the state of share groups among themselves with these.
            Self::InitializeShareGroupState
            | Self::ReadShareGroupState
            | Self::WriteShareGroupState
            | Self::DeleteShareGroupState
            | Self::ReadShareGroupStateSummary => None,
            _ => Some(stable),
        }
    }

    /// The versions our broker advertises for an API that it serves.
    pub const fn broker_versions(self) -> Option<VersionRange> {
        let stable = self.row().stable;
        match self {
            // Versions 0 to 2 are advertised and refused, as Kafka does: older librdkafka takes their absence as a sign
            // of a broker without compression.
            Self::Produce => Some(VersionRange::new(0, stable.max)),
            _ => Some(stable),
        }
    }

    pub const fn request_header_version(self, version: i16) -> i16 {
        if is_flexible(self.row().flexible_request, version) {
            2
        } else {
            1
        }
    }

    pub const fn response_header_version(self, version: i16) -> i16 {
        match self {
            // A client decodes this response before it knows the broker's versions, so its header never
            // changed.
            Self::ApiVersions => 0,
            _ if is_flexible(self.row().flexible_response, version) => 1,
            _ => 0,
        }
    }
}

const fn is_flexible(since: Option<i16>, version: i16) -> bool {
    match since {
        Some(since) => version >= since,
        None => false,
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

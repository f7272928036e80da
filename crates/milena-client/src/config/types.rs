//! Types of values that all clients share.

use std::fmt;

use milena_config::{FromConfigValue as _, FromText, Validator, choices};

/// A bootstrap server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAddress {
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

/// `metadata.recovery.strategy`: the reaction if no known broker is reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetadataRecovery {
    #[default]
    Rebootstrap,
    None,
}

choices! { MetadataRecovery [any case] { Rebootstrap = "rebootstrap", None = "none" } }

/// `milena.io`: where the connections for records run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordsIo {
    /// On a thread of their own, independent of the application's executor.
    #[default]
    Thread,
    /// On the tokio runtime that created the client.
    Runtime,
}

choices! { RecordsIo { Thread = "thread", Runtime = "runtime" } }

/// Parses `host:port`. The prefix `PLAINTEXT://` is accepted, as it stands in the listeners of brokers.
impl FromText for ServerAddress {
    fn from_text(text: &str) -> Option<Self> {
        let address = match text.split_once("://") {
            Some((protocol, address)) => Some(address).filter(|_| protocol.eq_ignore_ascii_case("PLAINTEXT"))?,
            None => text,
        };
        let (host, port) = address.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']')?,
            None => host,
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '%' | '.' | '_' | ':');
        let valid = !host.is_empty() && host.chars().all(is_host) && port.bytes().all(|digit| digit.is_ascii_digit());
        let port = port.parse().ok().filter(|port| valid && *port != 0)?;
        let host = host.to_owned();
        Some(Self { host, port })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// `bootstrap.servers`.
pub(super) const SERVERS: Validator = Validator {
    accepts: |value| Vec::<ServerAddress>::from_config_value(value).is_some_and(|servers| !servers.is_empty()),
    expected: || "a list of host:port, as in kafka1:9092,[::1]:9092".to_owned(),
    summary: || "list of host:port".to_owned(),
};

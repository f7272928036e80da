//! TLS from Kafka's settings: [`TlsOptions`] become a [`ClientTls`] or a [`ServerTls`].
//!
//! Key stores are recognised by their content, never by `ssl.keystore.type`: Java's default type is JKS, while most files
//! are PKCS#12 or PEM. A store that cannot be read, a protocol or cipher that does not exist, and settings that contradict
//! each other are errors that say so; nothing is ignored.

mod client;
mod error;
mod explain;
mod files;
mod live;
mod material;
mod names;
mod options;
mod refusal;
mod server;
mod verify;

pub use client::ClientTls;
pub use error::TlsError;
pub use explain::{FailureKind, TlsFailure, WrongProtocol, explain, explain_accept, sniff};
pub use options::{ClientAuth, Source, TlsOptions};
pub use rustls;
pub use server::ServerTls;

use rustls::pki_types::ServerName;

/// The name that a server's certificate must have, from the host in an address.
///
/// A trailing dot is removed, because certificates never have one; an IP address stays an address, with or without the
/// brackets of IPv6.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare = bare.unwrap_or(host);
    // The zone of a link-local address says which interface to use; a certificate cannot know it.
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::ServerName { host: host.to_owned() })
}

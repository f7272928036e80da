//! Sockets: listeners, TLS, log-ins, connections, frames, responses in the order of their requests.

mod certificates;
mod connection;
mod endpoint;
mod establish;
mod failures;
mod frames;
mod inbound;
mod limits;
mod listener;
mod login;
mod memory;
mod outbound;
mod peer;
mod tls;
mod transport;
mod unauthenticated;
mod verification;

pub(crate) use certificates::watch as watch_certificates;
pub(crate) use endpoint::Endpoints;
pub(crate) use failures::FailureKind;
pub(crate) use inbound::InboundRequest;
pub(crate) use limits::Connections;
pub(crate) use listener::{BoundListener, bind, handshake_turns, is_exposed, resolve, serve};
pub(crate) use memory::RequestMemory;
pub(crate) use outbound::{OutboundResponse, PLACEHOLDER_LEN_MAX, placeholder};
pub(crate) use peer::{Peer, Principal, Software};
pub(crate) use tls::TlsBuffers;
pub(crate) use unauthenticated::Unauthenticated;

//! Sockets: listeners, connections, frames, responses in the order of their requests.

mod connection;
mod frames;
mod inbound;
mod limits;
mod listener;
mod outbound;
mod peer;

pub(crate) use frames::RequestMemory;
pub(crate) use inbound::InboundRequest;
pub(crate) use limits::Connections;
pub(crate) use listener::{bind, serve};
pub(crate) use outbound::{OutboundResponse, PLACEHOLDER_LEN_MAX, placeholder};
pub(crate) use peer::{Peer, Principal, Software};

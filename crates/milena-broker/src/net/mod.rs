//! Sockets: connections, frames, answers in their order.

mod connection;
mod frames;
mod incoming;
mod limits;
mod listener;
mod outgoing;

pub(crate) use connection::{Peer, Software};
pub(crate) use frames::RequestMemory;
pub(crate) use incoming::Incoming;
pub(crate) use limits::Connections;
pub(crate) use listener::{bind, serve};
pub(crate) use outgoing::{Outgoing, PLACEHOLDER_LEN_MAX, placeholder};

//! Connections to a real broker, and to servers that follow a script.

mod authentication;
pub(crate) mod broker;
mod life;
mod misbehaving;
pub(crate) mod rig;

//! Connections to a real broker, and to servers that follow a script.

pub(crate) mod broker;
mod life;
mod misbehaving;
pub(crate) mod rig;

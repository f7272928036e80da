//! Connections against a real broker, and against servers that do what a test tells them.

pub(crate) mod broker;
mod life;
mod misbehaving;
pub(crate) mod rig;

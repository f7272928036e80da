//! Cases of connections.

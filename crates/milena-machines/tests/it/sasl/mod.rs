//! Log-ins of connections: the cases that Kafka's own tests of its authenticator have, as facts.

mod client;
mod connection;
mod reauthentication;
mod rig;

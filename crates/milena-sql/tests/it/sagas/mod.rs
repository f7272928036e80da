//! Sagas on real databases and a broker in the test.

mod commands;
mod failures;
mod rig;
mod runs;
mod timeouts;

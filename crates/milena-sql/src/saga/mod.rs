//! Sagas whose state is in a database.

pub mod store;

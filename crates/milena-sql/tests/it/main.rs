//! Integration tests on real databases.

mod databases;
mod migrations;
mod saga_store;

//! Integration tests on real databases.

mod checkpoints;
mod databases;
mod migrations;
mod offsets;

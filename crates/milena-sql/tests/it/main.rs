//! Integration tests on real databases.

mod checkpoints;
mod databases;
mod migrations;
mod offsets;
<<<<<<< HEAD
mod once;
=======
>>>>>>> main
mod outbox;
mod outbox_order;
#[cfg(feature = "tokio-postgres")]
mod outbox_tokio_postgres;
mod relay;
<<<<<<< HEAD
=======
mod saga_store;
>>>>>>> main

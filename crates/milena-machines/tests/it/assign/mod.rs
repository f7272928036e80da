//! The assignors, compared with Kafka's own.

mod bytes;
mod facts;
mod golden;
mod groups;
mod properties;
mod vectors;

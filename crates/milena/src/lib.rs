//! The reader's side of Apache Kafka.
//!
//! This crate is the front door: what applications use, under one name. What stands behind it are rooms of their own,
//! `milena-client` most of all.
//!
//! # Getting started
//!
//! A [`Consumer`] reads topics, here as a member of the group `billing`. Whatever it was given before is committed when
//! it is closed, and every few seconds meanwhile.
//!
//! ```
//! use std::time::Duration;
//!
//! use milena::prelude::*;
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/embedded.rs")); }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let broker = embedded::Embedded::start().await;
//! # broker.create_topic("orders", 3).await;
//! # broker.produce("orders", 1, 0, &["book", "pen"]).await;
//! # let bootstrap = broker.address();
//! // With a broker on this machine: let bootstrap = "127.0.0.1:9092";
//! let config = ConsumerConfig::builder(bootstrap)
//!     .group_id("billing")
//!     .auto_offset_reset(AutoOffsetReset::Earliest);
//! let mut consumer = Consumer::new(config)?;
//! consumer.subscribe(["orders"])?;
//!
//! let mut orders = vec![];
//! while orders.len() < 2 {
//!     let records = consumer.poll(Duration::from_secs(1)).await?;
//!     for record in &records {
//!         orders.push(record.value_as::<String>(&Plain)?);
//!     }
//! }
//! assert_eq!(orders, ["book", "pen"]);
//! consumer.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Producer`] writes. What it sends is written once, and in order; several records and the offsets of what they were
//! made from can be written together or not at all ([`Producer::begin`]).
//!
//! ```
//! use milena::prelude::*;
//! # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/embedded.rs")); }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let broker = embedded::Embedded::start().await;
//! # broker.create_topic("orders", 3).await;
//! # let bootstrap = broker.address();
//! let producer = Producer::new(ProducerConfig::builder(bootstrap))?;
//! let order = ProducerRecord::new("orders").key("customer 7").value("book");
//! let written = producer.send(order).await?;
//! assert_eq!(written.offset, Some(0));
//! producer.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Most applications need no loop of their own: an [`App`] runs handlers, tries again what fails, keeps what fails for good
//! and commits what is done. See [`app`].
//!
//! Longer programs are in the folder `examples`: `order_service` is a whole application, `consume` is the loop to copy,
//! with commits where they belong, and `manual_assignment` reads partitions without a group, from a time on.
//!
//! # Where to look
//!
//! - [`App`] is the runtime; [`app::handler`] says what handlers can be, [`app::policy`] what can be declared about them.
//! - [`Consumer`] has `subscribe`, `assign`, `poll` and `close`; [`RebalanceConsumer`], which it dereferences to, has what
//!   listeners can do too: commit, seek, pause, and ask for offsets and topics.
//! - [`ConsumerRecords`] is what a poll returns. Its records borrow; [`RecordRef::to_owned`] gives one that can be kept.
//! - [`RebalanceListener`] hears when partitions come and go.
//! - [`deserialize`] makes values of bytes.
//! - [`assignor`] is for groups that share their partitions by rules of their own.
//! - [`Producer`] has `send`, which waits for the acknowledgement, `enqueue`, which does not, and transactions;
//!   [`producer::partition`] chooses partitions.
//! - [`Admin`] looks after topics, groups, settings, transactions and more.
//! - [`config`] has all settings, [`metrics`] all figures, under Kafka's names.
//!
//! Every kind of call has an error type of its own, such as [`PollError`] and [`CommitError`], whose variants say what
//! happened and what to do.

#![forbid(unsafe_code)]

#[doc(inline)]
pub use milena_app::{self as app, App};
#[doc(inline)]
pub use milena_client::{
    admin::{self, Admin},
    config::{self, AdminConfig, AutoOffsetReset, ConfigMap, ConsumerConfig, IsolationLevel, ProducerConfig},
    consumer::*,
    exactly_once::{self, ExactlyOnce, Transform},
    metrics::{self, Metric, Metrics},
    producer::{
        self, Deliveries, Delivery, OutgoingRecord, Producer, ProducerInterceptor, ProducerRecord, RecordMetadata,
        SendError, Transaction,
    },
    reachability,
};

/// What most programs need, for `use milena::prelude::*`.
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::{
        AutoOffsetReset, CloseOptions, CommitError, Consumer, ConsumerConfig, ConsumerRecord, ConsumerRecords,
        IsolationLevel, ListenerError, OffsetAndMetadata, PollError, Producer, ProducerConfig, ProducerRecord,
        RebalanceConsumer, RebalanceListener, RecordRef, TopicPartition,
        deserialize::{Json, Plain},
    };
}

/// The code in the README is compiled too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

//! Apache Kafka for consumers of events: a client, and a runtime for applications.
//!
//! This crate is the facade of `milena-client` and `milena-app`.
//!
//! # Getting started
//!
//! A [`Consumer`] reads topics, here as a member of the group `billing`. By default it commits its position every five
//! seconds and when it is closed.
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
//! A [`Producer`] writes records, idempotently and in order. A transaction writes several records and the offsets of their
//! input atomically ([`Producer::begin`]).
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
//! Most applications need no poll loop: an [`App`] runs handlers, retries failures, writes dead letters and commits. See
//! [`app`].
//!
//! The folder `examples` has complete programs: `order_service` is an application, `consume` is a poll loop with explicit
//! commits, and `manual_assignment` reads partitions without a group, starting at a time.
//!
//! # Where to look
//!
//! - [`App`]: the runtime. [`app::handler`] describes handlers, [`app::policy`] their policies.
//! - [`Consumer`]: `subscribe`, `assign`, `poll`, `close`. It dereferences to [`RebalanceConsumer`], whose methods rebalance
//!   listeners can use too: commit, seek, pause, and queries of offsets and topics.
//! - [`ConsumerRecords`]: the result of a poll. Its records borrow; [`RecordRef::to_owned`] returns an owned one.
//! - [`RebalanceListener`]: callbacks for assigned, revoked and lost partitions.
//! - [`deserialize`]: deserializers of keys and values.
//! - [`assignor`]: custom assignors.
//! - [`Producer`]: `send` waits for the acknowledgement, `enqueue` does not; transactions. [`producer::partition`] has the
//!   partitioners.
//! - [`Admin`]: topics, groups, configurations, transactions and more.
//! - [`config`]: all settings. [`metrics`]: all metrics, under Kafka's names.
//! - `sql`, with the feature of that name: outbox, idempotent handlers, offsets and sagas in PostgreSQL and SQLite.
//!
//! Every kind of call has its own error type, such as [`PollError`] and [`CommitError`]. The variants name the cause and the
//! remedy.

#![forbid(unsafe_code)]

#[doc(inline)]
pub use milena_app::{self as app, App};
#[doc(inline)]
pub use milena_client::{
    admin::{self, Admin},
    auth::{self, AuthenticationError, TokenProvider},
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

#[cfg(feature = "sql")]
#[doc(inline)]
pub use milena_sql as sql;

/// The names that most programs need, for `use milena::prelude::*`.
pub mod prelude {
    #[cfg(feature = "sql")]
    #[doc(no_inline)]
    pub use crate::sql::{Database, outbox::OutboxEvent};
    #[doc(no_inline)]
    pub use crate::{
        AutoOffsetReset, CloseOptions, CommitError, Consumer, ConsumerConfig, ConsumerRecord, ConsumerRecords,
        IsolationLevel, ListenerError, OffsetAndMetadata, PollError, Producer, ProducerConfig, ProducerRecord,
        RebalanceConsumer, RebalanceListener, RecordRef, TopicPartition,
        deserialize::{Json, Plain},
    };
}

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

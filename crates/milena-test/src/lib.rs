//! A test kit, for the tests of Milena and of its users.
//!
//! [`TestBroker`] is a real broker inside the test. [`Faults`] are injected between it and its clients: late, lost
//! and error responses, connections that are cut, stall or drip, leaders that move. [`MockConsumer`] needs no
//! broker: it returns the records of its script. [`TestKit`] runs a whole application, with its own broker and
//! clock. [`PostgresServer`] is a database for it.
//!
//! Unexpected conditions panic, so that they fail the test.

#![forbid(unsafe_code)]

mod broker;
mod faults;
mod kit;
mod mock;
mod postgres;
mod proxy;

pub use broker::{GroupMember, TestBroker, TestBrokerBuilder, TestRecord};
pub use faults::{Fault, Faults, FaultsOn, Throttles};
pub use kit::TestKit;
pub use milena_wire::{api::ApiKey, errors::ErrorCode, message::Request, messages};
pub use mock::{Call, MockConsumer, MockRebalanceConsumer, MockScript};
pub use postgres::PostgresServer;

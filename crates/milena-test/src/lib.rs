//! A test kit, for the tests of Milena and for yours.
//!
//! [`TestBroker`] is a real broker inside the test. [`Faults`] stand between it and its clients: answers that come late,
//! get lost or are errors, connections that are cut, stall or drip, leaders that move. [`MockConsumer`] needs no broker: it
//! reads what the test has written down for it. [`TestKit`] runs a whole application, on a broker and with a time of its
//! own.
//!
//! Whatever is unexpected here panics: in a test, that is the way to say it.

#![forbid(unsafe_code)]
#![allow(
    clippy::missing_panics_doc,
    reason = "panics are how a test kit tells of what should not be"
)]

mod broker;
mod faults;
mod kit;
mod mock;
mod proxy;

pub use broker::{GroupMember, TestBroker, TestBrokerBuilder, TestRecord};
pub use faults::{Fault, Faults, FaultsOn, Throttles};
pub use kit::TestKit;
pub use milena_wire::{api::ApiKey, errors::ErrorCode, message::Request, messages};
pub use mock::{Call, MockConsumer, MockRebalanceConsumer, MockScript};

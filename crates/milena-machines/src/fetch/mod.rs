//! Fetch positions and fetch sessions of a consumer.
//!
//! [`Positions`] knows the partitions a consumer has, its position in each, and the lookup that a partition needs
//! before it can be fetched: the committed offset, or the offset that a reset leads to. [`FetchSession`] is the
//! client's half of an incremental fetch session (KIP-227) with one broker.

mod partition;
mod position;
mod positions;
mod session;

pub use position::{FetchFrom, Position, ResetPolicy, ResetTo};
pub use positions::{FetchError, FetchErrorAction, Fetchable, PositionEpoch, Positions, ResetNeeded};
pub use session::{FetchSession, SessionError, SessionPartition};

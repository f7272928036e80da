//! What a consumer reads next: positions and fetch sessions.
//!
//! [`Positions`] knows the partitions a consumer has, where it stands in each, and what must be found out before it can
//! read: the committed offset, or the offset a reset leads to. [`FetchSession`] is the client's half of an incremental
//! fetch session (KIP-227) with one broker.

mod partition;
mod position;
mod positions;
mod session;

pub use position::{FetchFrom, Position, ResetPolicy, ResetTo};
pub use positions::{FetchError, FetchErrorAction, Fetchable, PositionEpoch, Positions, ResetNeeded};
pub use session::{FetchSession, SessionError, SessionPartition};

//! Offsets in the database, on both databases and a real broker.

mod fencing;
mod positions;
mod refusals;
mod restarts;
mod rig;

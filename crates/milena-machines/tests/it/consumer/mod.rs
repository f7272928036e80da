//! Groups in which the broker assigns, asked as a broker would ask.

mod harness;
mod heartbeat;
mod rebalance;
mod schedules;
mod static_members;

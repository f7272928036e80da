//! Groups in which the broker assigns, asked as a broker would ask.

mod describe;
mod harness;
mod heartbeat;
mod mixed;
mod mixed_schedules;
mod rebalance;
mod regex;
mod schedules;
mod static_members;

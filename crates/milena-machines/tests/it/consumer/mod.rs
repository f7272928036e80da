//! Groups of the consumer protocol, driven as by a broker.

mod describe;
mod harness;
mod heartbeat;
mod mixed;
mod mixed_schedules;
mod rebalance;
mod regex;
mod schedules;
mod static_members;

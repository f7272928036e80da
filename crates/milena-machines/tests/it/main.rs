//! The machines, rule by rule.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod app;
mod assign;
mod authorizer;
mod classic_heartbeat;
mod classic_join;
mod classic_leave;
mod classic_random;
mod classic_restart;
mod classic_static;
mod classic_sync;
mod classic_timeouts;
mod consumer;
mod fetch_positions;
mod fetch_session;
mod groups_admin;
mod limits;
mod member;
mod offsets_commit;
mod offsets_delete;
mod offsets_expiry;
mod offsets_fetch;
mod offsets_txn;
mod produce;
mod quota;
mod saga;
mod sasl;
mod transaction_add;
mod transaction_end;
mod transaction_histories;
mod transaction_init;
mod transaction_rig;
mod transaction_sweep;
mod world;

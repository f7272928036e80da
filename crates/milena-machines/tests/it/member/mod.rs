//! The client's side of groups.

mod classic_cooperative;
mod classic_eager;
mod classic_leader;
mod classic_membership;
mod classic_static;
mod consumer_heartbeat;
mod consumer_reconcile;
mod leaving;
mod offset_commits;
mod offset_fetches;
mod rig;

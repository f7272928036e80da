//! The client's side of groups.

mod classic_cooperative;
mod classic_eager;
mod classic_leader;
mod classic_membership;
mod classic_static;
mod leaving;
mod modern_heartbeat;
mod modern_reconcile;
mod offset_commits;
mod offset_fetches;
mod rig;

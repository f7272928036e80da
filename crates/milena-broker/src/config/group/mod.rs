//! Configuration of groups: of all, and of single ones.

mod config;
mod table;

pub(crate) use config::misfits;
pub(super) use config::{MIGRATION_POLICIES, check_own, resolve};
pub(super) use table::GROUP_CONFIGS;

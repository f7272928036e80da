//! The scheduler of an application, rule by rule.

mod at_most_once;
mod barrier;
mod breaker;
mod commit;
mod failures;
mod key_holds;
mod quarantine;
mod release;
mod rig;
mod runs;
mod shared;
mod taken;
mod waiting;

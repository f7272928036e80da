//! Thousands of runs, a bug at a time.

mod mutations;
mod scenarios;

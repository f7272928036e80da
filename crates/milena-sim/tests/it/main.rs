//! Thousands of runs, and the known bugs one at a time.

mod mutations;
mod sagas;
mod scenarios;

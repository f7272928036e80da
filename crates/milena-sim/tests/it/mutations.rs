//! Bugs that are put back in are found.

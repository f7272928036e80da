//! Who coordinates a group.

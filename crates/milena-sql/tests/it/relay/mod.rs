//! The relay of the outbox, with a real broker.

mod app;
mod basics;
mod failures;
mod interleavings;
mod several;
mod support;
mod wake;

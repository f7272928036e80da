//! The coordinators, rule by rule.

mod consumer;

//! The coordinators, rule by rule.

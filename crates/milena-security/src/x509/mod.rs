//! The parts of certificates that rustls does not show: subject, issuer, names, validity.

mod certificate;
pub(crate) mod der;
mod distinguished_name;
mod time;

pub(crate) use certificate::{AlternativeName, Certificate};
pub(crate) use distinguished_name::rfc2253;
pub(crate) use time::{format_seconds, seconds_since_1970};

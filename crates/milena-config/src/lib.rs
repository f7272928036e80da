//! Configuration as data, in two steps.
//!
//! Raw: a [`ConfigMap`] has keys and texts from code, maps, arguments, `.properties` and TOML, each with its [`Origin`].
//! Resolved: a [`Resolver`] checks a map against a [`Schema`] and gives every key a [`ConfigValue`], from which a crate
//! fills the typed fields of its own configuration.
//!
//! A [`Schema`] is the list of keys of one kind of configuration, such as that of the consumer or of topics. Each key is
//! a [`Definition`]: name, type, default, importance, [`Allowed`] values, aliases, documentation. A key that cannot be
//! honoured is refused with a reason; nothing is accepted and then ignored. [`document()`] writes the reference pages from
//! the same definitions, and [`choices!`] gives an enum its names, so that no list of names is written twice.
//!
//! This crate works on text alone: no files, no clock, no environment. Its users read the files.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod allowed;
mod choices;
mod definition;
mod document;
mod duration;
mod error;
mod map;
mod names;
mod note;
mod origin;
mod properties;
mod resolve;
mod schema;
mod secrets;
mod security_protocol;
#[cfg(test)]
mod tests;
mod time;
mod toml_text;
mod value;

pub use allowed::{Allowed, Validator};
#[doc(hidden)]
pub use choices::class_name;
pub use definition::{Alias, ConfigType, Definition, Deviation, Importance, Support, Unit, UpdateMode};
pub use document::document;
pub use duration::parse_duration;
pub use error::{ConfigError, ConfigErrors};
pub use map::ConfigMap;
pub use names::{edit_distance, nearest};
pub use note::Note;
pub use origin::{Origin, Setting, Source};
pub use resolve::Resolver;
pub use schema::{Schema, Table};
pub use secrets::is_secret;
pub use security_protocol::SecurityProtocol;
pub use time::{TimeError, parse_time};
pub use value::{ConfigValue, FromConfigValue, FromText, ValueError, split_list, trim};

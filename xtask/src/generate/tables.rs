//! The lists over all messages: modules, API keys, error codes.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::{
    definition::{ErrorCode, Kind},
    model::Message,
};

/// `messages/mod.rs`: the modules, and a macro that visits every message.
pub(super) fn message_list(messages: &[Message]) -> String {
    let mut code = String::from(
        "//! Kafka's messages, one module for each; a message is also exported here under its own name.\n\n\
         #![allow(\n\
             clippy::too_many_lines,\n\
             clippy::field_reassign_with_default,\n\
             reason = \"generated from tables: functions are long but straight, and fields are read in wire order\"\n\
         )]\n\n",
    );
    for message in messages {
        let _ = writeln!(code, "pub mod {};", message.module());
    }
    code.push('\n');
    for message in messages {
        let _ = writeln!(code, "pub use {}::{};", message.module(), message.name);
    }
    let names: Vec<&str> = messages.iter().map(|message| message.name.as_str()).collect();
    let _ = write!(
        code,
        "\n/// Calls a macro with the names of all messages: for tests and tools that treat every one alike.\n\
         #[macro_export]\nmacro_rules! for_each_message {{ ($callback:ident) => {{ $callback! {{ {} }} }}; }}\n",
        names.join(", ")
    );
    code
}

pub(super) fn api_keys(messages: &[Message]) -> Result<String> {
    let mut requests = vec![];
    for message in messages.iter().filter(|message| message.kind == Kind::Request) {
        let key = message
            .api_key
            .with_context(|| format!("{} has no apiKey", message.name))?;
        requests.push((key, message));
    }
    requests.sort_by_key(|(key, _)| *key);
    let mut variants = String::new();
    let mut all = String::new();
    let mut rows = String::new();
    for (key, message) in &requests {
        let api = message.name.trim_end_matches("Request");
        let (min, max) = (message.versions.min, message.versions.max);
        let stable = max - i16::from(message.unstable);
        let request = format!("{api}Request");
        let response = format!("{api}Response");
        let _ = writeln!(variants, "{api} = {key},");
        let _ = write!(all, "Self::{api}, ");
        let _ = writeln!(
            rows,
            "Self::{api} => ApiRow {{ name: {api:?}, stable: VersionRange::new({min}, {stable}), \
             flexible_request: messages::{request}::FLEXIBLE_SINCE, flexible_response: messages::{response}::FLEXIBLE_SINCE }},"
        );
    }
    Ok(format!(
        "//! The API keys, with the versions of the definitions.\n\n\
         use crate::{{message::{{Message, VersionRange}}, messages}};\n\
         use super::ApiRow;\n\n\
         /// A kind of request, by the number that starts every request header.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]\n\
         #[repr(i16)]\n\
         pub enum ApiKey {{\n{variants}}}\n\n\
         impl ApiKey {{\n\
             pub const ALL: [Self; {}] = [{all}];\n\n\
             #[expect(clippy::too_many_lines, reason = \"a table\")]\n\
             pub(super) const fn row(self) -> ApiRow {{ match self {{\n{rows}}} }}\n\
         }}\n",
        requests.len()
    ))
}

pub(super) fn error_codes(errors: &[ErrorCode]) -> String {
    let mut variants = String::new();
    let mut all = String::new();
    let mut rows = String::new();
    for error in errors {
        let variant = camel_case(&error.name);
        let exception = if error.exception == "-" { "" } else { &error.exception };
        let _ = writeln!(variants, "{variant} = {},", error.code);
        let _ = write!(all, "Self::{variant}, ");
        let _ = writeln!(
            rows,
            "Self::{variant} => ErrorRow {{ name: {:?}, exception: {exception:?}, retriable: {}, invalidates_metadata: {} }},",
            error.name, error.retriable, error.invalidates_metadata
        );
    }
    format!(
        "//! The error codes, with their properties in Kafka's Java client.\n\n\
         use super::ErrorRow;\n\n\
         /// The error code of a response.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]\n\
         #[repr(i16)]\n\
         pub enum ErrorCode {{\n{variants}}}\n\n\
         impl ErrorCode {{\n\
             pub const ALL: [Self; {}] = [{all}];\n\n\
             #[expect(clippy::too_many_lines, reason = \"a table\")]\n\
             pub(super) const fn row(self) -> ErrorRow {{ match self {{\n{rows}}} }}\n\
         }}\n",
        errors.len()
    )
}

fn camel_case(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{first}{}", rest.to_ascii_lowercase())
        })
        .collect()
}

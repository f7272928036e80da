//! Arbitrary values of every struct, for the tests: each field that a version has gets a value it can hold there.

use std::fmt::Write as _;

use super::{
    message::{condition, ident},
    model::{Message, Struct},
};

pub(super) fn file(messages: &[Message]) -> String {
    let mut code = String::from(
        "//! Arbitrary values of every message and of the structs inside them.\n\n\
         #![allow(clippy::field_reassign_with_default, reason = \"fields are set one by one, as versions have them\")]\n\n\
         use milena_wire::messages;\n\n\
         use crate::arbitrary::{Arbitrary, Source};\n\n",
    );
    for message in messages {
        for item in &message.structs {
            code.push_str(&sample(message, item));
        }
    }
    code
}

fn sample(message: &Message, item: &Struct) -> String {
    let mut body = String::new();
    for field in &item.fields {
        let value = match condition(field.nullable, field.versions) {
            Some(guard) if !field.nullable.is_empty() => format!(
                "if {guard} {{ Arbitrary::arbitrary(source, version) }} else {{ Some(Arbitrary::arbitrary(source, version)) }}"
            ),
            _ => "Arbitrary::arbitrary(source, version)".to_owned(),
        };
        let statement = format!("value.{} = {value};", ident(field));
        body.push_str(&match condition(field.versions, message.versions) {
            Some(guard) => format!("if {guard} {{ {statement} }}\n"),
            None => format!("{statement}\n"),
        });
    }
    if !message.flexible.is_empty() {
        let statement = "value.unknown_tags = source.unknown_tags();";
        body.push_str(&match condition(message.flexible, message.versions) {
            Some(guard) => format!("if {guard} {{ {statement} }}\n"),
            None => format!("{statement}\n"),
        });
    }
    let mut code = String::new();
    let _ = write!(
        code,
        "impl Arbitrary for messages::{}::{} {{\n\
         fn arbitrary(source: &mut Source, version: i16) -> Self {{\n\
         let mut value = Self::default();\n{body}value\n}}\n}}\n\n",
        message.module(),
        item.name
    );
    code
}

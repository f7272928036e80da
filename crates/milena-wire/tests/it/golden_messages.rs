//! Every message in every version, against the bytes of Kafka's own classes.

use std::collections::BTreeSet;

use milena_wire::Uuid;

use crate::{every_message, vectors};

#[test]
fn every_vector_is_read_and_written_back_byte_for_byte() {
    let mut covered = BTreeSet::new();
    for vector in vectors::messages() {
        let what = format!("{} version {} {}", vector.name, vector.version, vector.variant);
        let message = every_message::find(&vector.name);
        let (text, written) = (message.reread)(&vector.bytes, vector.version).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(written, vector.bytes, "{what}: {text}");
        covered.insert((vector.name, vector.version));
    }
    let expected = every_message::ALL.iter().flat_map(|message| {
        message
            .versions
            .iter()
            .map(|version| (message.name.to_owned(), version))
    });
    assert_eq!(covered, expected.collect(), "every message and version has vectors");
}

/// In the `full` vectors each value follows from the name of its field, so that a value in the wrong field shows,
/// which a round trip alone cannot detect.
#[test]
fn every_value_lands_in_the_field_it_was_written_for() {
    for vector in vectors::messages()
        .into_iter()
        .filter(|vector| vector.variant == "full")
    {
        let message = every_message::find(&vector.name);
        let (text, _) = (message.reread)(&vector.bytes, vector.version).unwrap();
        for (field, value) in fields_of(&text) {
            assert!(
                is_value_of(field, value) || is_default(value),
                "{} version {}: {field} is {value} in {text}",
                vector.name,
                vector.version
            );
        }
    }
}

/// The literals in a Debug text, each with the field it belongs to.
fn fields_of(text: &str) -> Vec<(&str, &str)> {
    let mut fields = vec![];
    let mut field = "";
    for word in text
        .split([' ', ',', '(', ')', '[', ']', '{', '}'])
        .filter(|word| !word.is_empty())
    {
        match word.strip_suffix(':') {
            Some(name) => field = name.trim_start_matches("r#"),
            // Types and variants, not values.
            None if word.starts_with(char::is_uppercase) && field.ends_with("tags") => {}
            None if word == "Some" || word == "None" || is_type_name(word) => {}
            None => fields.push((field, word)),
        }
    }
    fields
}

fn is_type_name(word: &str) -> bool {
    // Ids are text of 22 characters; a type name ends in a letter and has no dash.
    word.starts_with(char::is_uppercase) && word.parse::<Uuid>().is_err()
}

fn is_value_of(field: &str, value: &str) -> bool {
    let hash = u64::from(crc32fast::hash(field.as_bytes()));
    if let Ok(number) = value.parse::<i64>() {
        let mut id = [
            hash & 0x7f,
            hash & 0x7fff,
            hash & 0xffff,
            hash & 0x7fff_ffff,
            (hash << 20) + hash,
        ]
        .into_iter();
        return id.any(|expected| i64::try_from(expected) == Ok(number));
    }
    if let Ok(number) = value.parse::<f64>() {
        return number == hash as f64 / 4.0;
    }
    let id = Uuid::from_bytes((u128::from(hash) << 64 | u128::from(hash + 1)).to_be_bytes());
    value == "true" || value == format!("\"{field}\"") || value == format!("b\"{field}\"") || value.parse() == Ok(id)
}

/// Whether a field has its default, as in a version that lacks it.
fn is_default(value: &str) -> bool {
    let numbers = [
        "0",
        "1",
        "16",
        "-1",
        "-2",
        "0.0",
        "2147483647",
        "-2147483648",
        "9223372036854775807",
    ];
    numbers.contains(&value) || ["false", "\"\"", "b\"\""].contains(&value) || value.parse() == Ok(Uuid::ZERO)
}

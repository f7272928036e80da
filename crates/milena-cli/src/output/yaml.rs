//! A YAML writer for JSON values.
//!
//! A string is written without quotes only if every YAML reader takes it for a string; otherwise in JSON's form, which
//! YAML reads the same. Fields are sorted by name.

use std::fmt::Write as _;

use serde_json::Value;

/// Formats a whole document.
pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Array(items) if !items.is_empty() => write_items(&mut text, items, 0),
        Value::Object(fields) if !fields.is_empty() => write_fields(&mut text, fields, 0),
        scalar => {
            text.push_str(&written(scalar));
            text.push('\n');
        }
    }
    text
}

fn write_items(text: &mut String, items: &[Value], depth: usize) {
    for item in items {
        indent(text, depth);
        text.push('-');
        match item {
            // The first field follows the dash.
            Value::Object(fields) if !fields.is_empty() => {
                let mut inner = String::new();
                write_fields(&mut inner, fields, depth + 1);
                text.push(' ');
                text.push_str(inner.trim_start());
            }
            item => write_value(text, item, depth),
        }
    }
}

fn write_fields(text: &mut String, fields: &serde_json::Map<String, Value>, depth: usize) {
    for (name, value) in fields {
        indent(text, depth);
        text.push_str(&written(&Value::String(name.clone())));
        text.push(':');
        write_value(text, value, depth);
    }
}

/// Formats the value after a dash or a name.
fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            write_items(text, items, depth + 1);
        }
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            write_fields(text, fields, depth + 1);
        }
        // Writing to a string cannot fail.
        scalar => drop(writeln!(text, " {}", written(scalar))),
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// A scalar on one line.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        // JSON's form of other values is valid YAML.
        other => other.to_string(),
    }
}

/// Whether every YAML reader takes the text for a string.
fn is_plain(text: &str) -> bool {
    let begins_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let lower = text.to_ascii_lowercase();
    begins_well && text.chars().all(is_harmless) && !WORDS.contains(&lower.as_str())
}

/// Words that some version of YAML reads as a boolean or null.
const WORDS: &[&str] = &["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_fields_are_indented() {
        let value = json!([
            {"topic": "letters", "partitions": [{"id": 0, "isr": [1, 2]}, {"id": 1, "isr": []}], "configs": {}},
            {"topic": "words"},
        ]);
        let expected = "\
- configs: {}
  partitions:
    - id: 0
      isr:
        - 1
        - 2
    - id: 1
      isr: []
  topic: letters
- topic: words
";
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn what_could_be_misread_is_quoted() {
        for (text, expected) in [
            ("letters", "letters"),
            ("a-b_c.d/e", "a-b_c.d/e"),
            ("", "\"\""),
            ("7", "\"7\""),
            ("-", "\"-\""),
            ("No", "\"No\""),
            ("null", "\"null\""),
            ("a: b", "\"a: b\""),
            ("line\n", "\"line\\n\""),
            ("# x", "\"# x\""),
        ] {
            assert_eq!(write(&json!({ "key": text })), format!("key: {expected}\n"));
        }
        assert_eq!(write(&json!([])), "[]\n");
        assert_eq!(write(&json!({"n": null, "b": true, "f": 1.5})).lines().count(), 3);
    }
}

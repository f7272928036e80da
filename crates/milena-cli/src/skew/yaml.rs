//! Values as YAML: what JSON can say, in blocks that people read more easily.

use std::fmt::Write as _;

use serde_json::Value;

/// A text that ends with its last line. Strings are in quotes with JSON's escapes, which are YAML's too; no value can be
/// mistaken for another then.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

fn write(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (place, (name, field)) in fields.iter().enumerate() {
                // The first field of an element stands beside its dash.
                if place > 0 || !text.ends_with("- ") {
                    indent(text, depth);
                }
                // Writing to a string cannot fail.
                let _ = write!(text, "{}:", Value::from(name.as_str()).to_string().trim_matches('"'));
                write_nested(text, field, depth);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for element in elements {
                indent(text, depth);
                text.push_str("- ");
                write(text, element, depth + 1);
            }
        }
        _ => {
            let _ = writeln!(text, "{value}");
        }
    }
}

fn write_nested(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        write(text, value, depth + 1);
    } else {
        text.push(' ');
        write(text, value, depth);
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_and_texts_are_in_quotes() {
        let value = json!({
            "a": 1,
            "list": [{"name": "no", "empty": []}, {"name": "x: \"y\"\n", "deep": {"k": null}}],
            "numbers": [1.5, true],
            "z": {},
        });
        let expected = r#"a: 1
list:
  - empty: []
    name: "no"
  - deep:
      k: null
    name: "x: \"y\"\n"
numbers:
  - 1.5
  - true
z: {}
"#;
        assert_eq!(text(&value), expected);
    }
}

//! TOML: tables and dotted keys become Kafka's names, arrays become lists.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::map::Line;

/// Parses every setting of the text. A syntax error is the only line of the result.
pub(crate) fn parse(text: &str) -> Vec<Line> {
    match DeTable::parse(text) {
        Ok(table) => {
            let mut lines = Vec::new();
            flatten("", table.get_ref(), &Lines::new(text), &mut lines);
            lines
        }
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            vec![Line {
                line: Lines::new(text).at(start),
                content: Err(error.message().to_owned()),
            }]
        }
    }
}

fn flatten(prefix: &str, table: &DeTable<'_>, numbers: &Lines<'_>, lines: &mut Vec<Line>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            flatten(&format!("{name}."), inner, numbers, lines);
        } else {
            lines.push(Line {
                line: numbers.at(key.span().start),
                content: read(value)
                    .map(|value| (name.clone(), value))
                    .ok_or_else(|| not_scalar(&name, value)),
            });
        }
    }
}

fn read(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::Array(elements) => {
            let texts: Option<Vec<String>> = elements.iter().map(scalar).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => scalar(value),
    }
}

fn scalar(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn not_scalar(name: &str, value: &Spanned<DeValue<'_>>) -> String {
    let given = match value.get_ref() {
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a nested list",
        _ => "a number that is too large",
    };
    format!(
        "{name} must be text, a number, true, false or a list of those, not {given}; put it in quotes if it is text"
    )
}

/// Positions of a text as line numbers.
struct Lines<'a> {
    text: &'a str,
    /// Where each line but the first begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = text.match_indices('\n').map(|(position, _)| position + 1).collect();
        Self { text, starts }
    }

    fn at(&self, position: usize) -> usize {
        let position = position.min(self.text.len());
        self.starts.partition_point(|start| *start <= position) + 1
    }
}

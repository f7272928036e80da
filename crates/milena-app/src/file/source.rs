//! Source text of a file: its name, the lines of its keys, and environment variables in its values.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::config::Origin;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use super::{FileError, FileErrors, LocatedError};

/// Lines of keys, for error messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    name: Option<Arc<str>>,
    /// Line of each key by its path, such as `handlers[0].retry.attempts`.
    lines: BTreeMap<String, usize>,
}

impl Source {
    /// Parses TOML. `name` is used in error messages.
    pub(super) fn parse(text: &str, name: Option<&str>) -> Result<(Self, Table), FileErrors> {
        let mut source = Self {
            name: name.map(Arc::from),
            lines: BTreeMap::new(),
        };
        let syntax = |source: &Self, error: &toml::de::Error| {
            let line = error.span().map(|span| line_at(text, span.start));
            let error = FileError::Syntax(error.message().to_owned());
            source.errors(vec![LocatedError { line, error }])
        };
        let spanned = DeTable::parse(text).map_err(|error| syntax(&source, &error))?;
        source.note("", spanned.get_ref(), text);
        let table: Result<Table, _> = text.parse();
        let table = table.map_err(|error| syntax(&source, &error))?;
        Ok((source, table))
    }

    /// Returns the line of a key, or of the innermost table that contains it.
    pub(crate) fn line(&self, path: &str) -> Option<usize> {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return Some(*line);
            }
            path = path.get(..path.rfind(['.', '['])?)?;
        }
    }

    pub(super) fn origin(&self, path: &str) -> Origin {
        let line = self.line(path).unwrap_or_default();
        match &self.name {
            Some(name) => Origin::File {
                name: Arc::clone(name),
                line,
            },
            None => Origin::Named(format!("line {line}").into()),
        }
    }

    pub(super) fn locate(&self, path: &str, error: FileError) -> LocatedError {
        LocatedError {
            line: self.line(path),
            error,
        }
    }

    pub(super) fn errors(&self, errors: Vec<LocatedError>) -> FileErrors {
        FileErrors {
            file: self.name.as_deref().map(str::to_owned),
            errors,
        }
    }

    fn note(&mut self, prefix: &str, table: &DeTable<'_>, text: &str) {
        for (key, value) in table {
            let path = match prefix {
                "" => key.get_ref().to_string(),
                prefix => format!("{prefix}.{}", key.get_ref()),
            };
            self.lines.insert(path.clone(), line_at(text, key.span().start));
            match value.get_ref() {
                DeValue::Table(inner) => self.note(&path, inner, text),
                DeValue::Array(elements) => {
                    for (place, element) in elements.iter().enumerate() {
                        let path = format!("{path}[{place}]");
                        self.lines.insert(path.clone(), line_at(text, element.span().start));
                        if let DeValue::Table(inner) = element.get_ref() {
                            self.note(&path, inner, text);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn line_at(text: &str, place: usize) -> usize {
    let before = text.get(..place).unwrap_or(text);
    before.matches('\n').count() + 1
}

/// Expands `${NAME}` and `${NAME:-default}` in all strings; `$${` stands for `${`.
pub(super) fn expand(
    table: &mut Table,
    variable: &dyn Fn(&str) -> Option<String>,
    source: &Source,
) -> Vec<LocatedError> {
    let mut errors = vec![];
    for (key, value) in table.iter_mut() {
        expand_value(key, value, variable, source, &mut errors);
    }
    errors
}

fn expand_value(
    path: &str,
    value: &mut Value,
    variable: &dyn Fn(&str) -> Option<String>,
    source: &Source,
    errors: &mut Vec<LocatedError>,
) {
    match value {
        Value::String(text) => match expand_text(text, variable) {
            Ok(expanded) => *text = expanded,
            Err(name) => {
                let path = path.to_owned();
                errors.push(source.locate(&path.clone(), FileError::Unset { path, name }));
            }
        },
        Value::Array(values) => {
            for (place, value) in values.iter_mut().enumerate() {
                expand_value(&format!("{path}[{place}]"), value, variable, source, errors);
            }
        }
        Value::Table(table) => {
            for (key, value) in table.iter_mut() {
                expand_value(&format!("{path}.{key}"), value, variable, source, errors);
            }
        }
        _ => {}
    }
}

/// `Err` has the name of an undefined variable.
fn expand_text(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = behind;
            continue;
        }
        expanded.push_str(before);
        let inner = behind.split_once('}');
        let named = inner.map(|(inner, _)| inner.split_once(":-").map_or((inner, None), |(n, d)| (n, Some(d))));
        match (inner, named) {
            (Some((_, behind)), Some((name, default))) if is_name(name) => {
                let value = variable(name).or_else(|| default.map(str::to_owned));
                expanded.push_str(&value.ok_or_else(|| name.to_owned())?);
                rest = behind;
            }
            // A form that only a shell understands.
            _ => {
                expanded.push_str("${");
                rest = behind;
            }
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let is_first = chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    is_first && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_environment_are_put_into_texts() {
        let variable = |name: &str| (name == "HOST").then(|| "kafka".to_owned());
        for (text, expected) in [
            ("${HOST}:9092", "kafka:9092"),
            ("a ${HOST} and ${HOST}", "a kafka and kafka"),
            ("${PORT:-9092}", "9092"),
            ("${HOST:-other}", "kafka"),
            ("$${HOST}", "${HOST}"),
            ("$HOST ${x%%.*} ${", "$HOST ${x%%.*} ${"),
        ] {
            assert_eq!(expand_text(text, &variable).as_deref(), Ok(expected));
        }
        assert_eq!(expand_text("${PORT}", &variable), Err("PORT".to_owned()));
    }

    #[test]
    fn keys_know_their_lines() {
        let text = "group = \"g\"\n[kafka]\nbootstrap.servers = \"b\"\n\n[[handlers]]\ntopic = \"t\"\nretry = { attempts = 3 }\n";
        let (source, _) = Source::parse(text, None).unwrap();
        for (path, line) in [
            ("group", 1),
            ("kafka.bootstrap.servers", 3),
            ("handlers[0]", 5),
            ("handlers[0].topic", 6),
            ("handlers[0].retry.attempts", 7),
            ("handlers[0].retry.missing", 7),
        ] {
            assert_eq!(source.line(path), Some(line), "{path}");
        }
        assert_eq!(source.line("nothing"), None);
    }
}

//! Reads TOML tables key by key, so that errors can name the key.

use std::{cell::RefCell, time::Duration};

use milena_client::config::{edit_distance, parse_time};
use toml::{Table, Value};

use super::{FileError, LocatedError, source::Source};

/// Errors and known keys, collected while a file is read.
pub(super) struct Report<'a> {
    pub(super) source: &'a Source,
    errors: RefCell<Vec<LocatedError>>,
    /// Keys that were read from any table.
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: &'a Source, errors: Vec<LocatedError>) -> Self {
        Self {
            source,
            errors: RefCell::new(errors),
            known: RefCell::default(),
        }
    }

    pub(super) fn errors(self) -> Vec<LocatedError> {
        self.errors.into_inner()
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> Vec<&'static str> {
        self.known.borrow().clone()
    }
}

/// A table with its path and the keys that were read from it.
pub(super) struct Keys<'a> {
    path: String,
    table: &'a Table,
    known: RefCell<Vec<&'static str>>,
    report: &'a Report<'a>,
}

/// Conversion from a TOML value.
pub(super) trait FromValue: Sized {
    const EXPECTED: &'static str;

    fn from_value(value: &Value) -> Option<Self>;

    /// Error for a value that cannot be converted.
    fn error(path: String, value: &Value) -> FileError {
        FileError::Invalid {
            path,
            found: shown(value),
            expected: Self::EXPECTED,
        }
    }
}

impl<'a> Keys<'a> {
    pub(super) fn new(path: impl Into<String>, table: &'a Table, report: &'a Report<'a>) -> Self {
        Self {
            path: path.into(),
            table,
            known: RefCell::default(),
            report,
        }
    }

    pub(super) fn source(&self) -> &'a Source {
        self.report.source
    }

    pub(super) fn path(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Reports an error of a key, or of the table itself if the key is empty.
    pub(super) fn error(&self, key: &str, error: FileError) {
        let path = if key.is_empty() {
            self.path.clone()
        } else {
            self.path(key)
        };
        let located = self.report.source.locate(&path, error);
        self.report.errors.borrow_mut().push(located);
    }

    fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(key);
        self.report.known.borrow_mut().push(key);
        self.table.get(key)
    }

    /// Returns the value of a key, if it is present and valid.
    pub(super) fn get<T: FromValue>(&self, key: &'static str) -> Option<T> {
        let value = self.value(key)?;
        let found = T::from_value(value);
        if found.is_none() {
            self.error(key, T::error(self.path(key), value));
        }
        found
    }

    pub(super) fn get_as<T>(
        &self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let found = read(value);
        if found.is_none() {
            let (path, found) = (self.path(key), shown(value));
            self.error(key, FileError::Invalid { path, found, expected });
        }
        found
    }

    pub(super) fn required<T: FromValue>(&self, key: &'static str) -> Option<T> {
        if !self.table.contains_key(key) {
            let (path, expected) = (self.path(key), T::EXPECTED);
            self.error("", FileError::Missing { path, expected });
        }
        self.get(key)
    }

    /// Returns a nested table.
    pub(super) fn inner(&self, key: &'static str) -> Option<Self> {
        let table = match self.value(key)? {
            Value::Table(table) => table,
            other => {
                let (path, found) = (self.path(key), shown(other));
                let expected = "a table";
                self.error(key, FileError::Invalid { path, found, expected });
                return None;
            }
        };
        Some(Self::new(self.path(key), table, self.report))
    }

    /// Returns the tables of an array.
    pub(super) fn list(&self, key: &'static str) -> Vec<Self> {
        let Some(value) = self.value(key) else {
            return vec![];
        };
        let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let tables = values.iter().enumerate().filter_map(|(place, value)| {
            let path = format!("{}[{place}]", self.path(key));
            Some(Self::new(path, value.as_table()?, self.report))
        });
        let tables: Vec<Self> = tables.collect();
        if tables.len() != values.len() || value.as_array().is_none() {
            let (path, found) = (self.path(key), shown(value));
            let expected = "a list of tables";
            self.error(key, FileError::Invalid { path, found, expected });
        }
        tables
    }

    /// Returns all entries of a table whose keys are user-defined.
    pub(super) fn free(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.table.iter()
    }

    pub(super) fn nested(&self, key: &str, table: &'a Table) -> Self {
        Self::new(self.path(key), table, self.report)
    }

    /// Reports the keys that were not read.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for key in self.table.keys().filter(|key| !known.contains(&key.as_str())) {
            let (path, nearest, known) = (self.path(key), nearest(key, &known), known.clone());
            self.error(key, FileError::Unknown { path, nearest, known });
        }
    }
}

/// Formats a value as TOML.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Table(_) => "a table".to_owned(),
    }
}

/// One edit per three letters still looks like a typo; more would be a guess.
fn nearest(wrong: &str, known: &[&'static str]) -> Option<&'static str> {
    let measured = known.iter().map(|name| (edit_distance(wrong, name), *name));
    let (edits, name) = measured.min()?;
    (edits <= name.len().div_ceil(3)).then_some(name)
}

impl FromValue for String {
    const EXPECTED: &'static str = "text";

    fn from_value(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl FromValue for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_value(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl FromValue for $number {
            const EXPECTED: &'static str = "a number, not negative and not too large";

            fn from_value(value: &Value) -> Option<Self> {
                value.as_integer().and_then(|number| Self::try_from(number).ok())
            }
        })*
    };
}

numbers!(u8 u32 u64 usize);

impl<T: FromValue> FromValue for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn from_value(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::from_value).collect()
    }

    /// Names the first invalid element of a list.
    fn error(path: String, value: &Value) -> FileError {
        let elements = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let wrong = elements.iter().position(|element| T::from_value(element).is_none());
        match wrong.and_then(|place| Some((place, elements.get(place)?))) {
            Some((place, element)) => T::error(format!("{path}[{place}]"), element),
            None => FileError::Invalid {
                path,
                found: shown(value),
                expected: Self::EXPECTED,
            },
        }
    }
}

impl FromValue for Duration {
    const EXPECTED: &'static str = "a time with its unit, such as \"100ms\", \"5s\", \"1m\", \"2h\" or \"30d\"";

    fn from_value(value: &Value) -> Option<Self> {
        parse_time(value.as_str()?).ok()
    }

    fn error(path: String, value: &Value) -> FileError {
        let found = shown(value);
        FileError::NotADuration { path, found }
    }
}

/// A duration, or `"none"` for no limit.
pub(super) struct Limit(pub(super) Option<Duration>);

impl FromValue for Limit {
    const EXPECTED: &'static str = "\"none\", or a time with its unit, such as \"100ms\", \"5s\", \"1m\" or \"2h\"";

    fn from_value(value: &Value) -> Option<Self> {
        if value.as_str() == Some("none") {
            return Some(Self(None));
        }
        Duration::from_value(value).map(|time| Self(Some(time)))
    }

    fn error(path: String, value: &Value) -> FileError {
        match value {
            Value::String(_) => Duration::error(path, value),
            _ => FileError::Invalid {
                path,
                found: shown(value),
                expected: Self::EXPECTED,
            },
        }
    }
}

/// A number of bytes.
pub(super) struct Size(pub(super) u64);

impl FromValue for Size {
    const EXPECTED: &'static str = "a number of bytes, or a size such as \"64MiB\"";

    fn from_value(value: &Value) -> Option<Self> {
        if let Some(number) = value.as_integer() {
            return u64::try_from(number).ok().map(Self);
        }
        let text = value.as_str()?;
        let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1_u64)];
        let (number, bytes) = units
            .iter()
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))?;
        number.trim().parse::<u64>().ok()?.checked_mul(bytes).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_guesses_are_not_made() {
        let known = ["attempts", "jitter_percent", "topics"];
        assert_eq!(nearest("atempts", &known), Some("attempts"));
        assert_eq!(nearest("jitter", &known), None);
        assert_eq!(nearest("topic", &known), Some("topics"));
    }

    #[test]
    fn times_and_sizes_have_units() {
        let time = |text: &str| Duration::from_value(&Value::String(text.to_owned()));
        assert_eq!(time("90s"), Some(Duration::from_secs(90)));
        assert_eq!(time("1d"), Some(Duration::from_secs(86_400)));
        assert_eq!(time("90"), None);
        assert_eq!(time("s"), None);
        let size = |text: &str| Size::from_value(&Value::String(text.to_owned())).map(|size| size.0);
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("64 MB"), None);
    }
}

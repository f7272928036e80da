//! Reading a table of TOML key by key, so that what is wrong can be named exactly.

use std::{cell::RefCell, fmt, time::Duration};

use milena_client::config::{edit_distance, parse_time};
use toml::{Table, Value};

/// One thing that is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error("{path} is not known{}", nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    Unknown {
        path: String,
        nearest: Option<&'static str>,
    },
    #[error("{path} cannot be {found}; it must be {expected}")]
    Invalid {
        path: String,
        found: String,
        expected: &'static str,
    },
    #[error("{path} is missing; it must be {expected}")]
    Missing { path: String, expected: &'static str },
    #[error("{0}")]
    Syntax(String),
    #[error("{path}: {problem}")]
    Unreadable { path: String, problem: String },
}

/// All that is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileError>);

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

/// A table, where it stands, and which of its keys were asked for.
pub(super) struct Keys<'a> {
    path: String,
    table: &'a Table,
    known: RefCell<Vec<&'static str>>,
    errors: &'a RefCell<Vec<FileError>>,
}

/// What a value can be read as.
pub(super) trait FromValue: Sized {
    const EXPECTED: &'static str;

    fn from_value(value: &Value) -> Option<Self>;
}

impl<'a> Keys<'a> {
    pub(super) fn new(path: impl Into<String>, table: &'a Table, errors: &'a RefCell<Vec<FileError>>) -> Self {
        Self {
            path: path.into(),
            table,
            known: RefCell::default(),
            errors,
        }
    }

    pub(super) fn path(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    pub(super) fn error(&self, error: FileError) {
        self.errors.borrow_mut().push(error);
    }

    fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(key);
        self.table.get(key)
    }

    /// The value of a key, if it is there and is what it must be.
    pub(super) fn get<T: FromValue>(&self, key: &'static str) -> Option<T> {
        self.get_as(key, T::EXPECTED, T::from_value)
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
            self.error(FileError::Invalid {
                path: self.path(key),
                found: shown(value),
                expected,
            });
        }
        found
    }

    pub(super) fn required<T: FromValue>(&self, key: &'static str) -> Option<T> {
        if !self.table.contains_key(key) {
            self.error(FileError::Missing {
                path: self.path(key),
                expected: T::EXPECTED,
            });
        }
        self.get(key)
    }

    /// A table inside of this one.
    pub(super) fn inner(&self, key: &'static str) -> Option<Self> {
        let table = match self.value(key)? {
            Value::Table(table) => table,
            other => {
                self.error(FileError::Invalid {
                    path: self.path(key),
                    found: shown(other),
                    expected: "a table",
                });
                return None;
            }
        };
        Some(Self::new(self.path(key), table, self.errors))
    }

    /// The tables of a list.
    pub(super) fn list(&self, key: &'static str) -> Vec<Self> {
        let Some(value) = self.value(key) else {
            return vec![];
        };
        let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let tables = values.iter().enumerate().filter_map(|(place, value)| {
            let path = format!("{}[{place}]", self.path(key));
            Some(Self::new(path, value.as_table()?, self.errors))
        });
        let tables: Vec<Self> = tables.collect();
        if tables.len() != values.len() || value.as_array().is_none() {
            self.error(FileError::Invalid {
                path: self.path(key),
                found: shown(value),
                expected: "a list of tables",
            });
        }
        tables
    }

    /// All keys, of a table whose names are the user's own.
    pub(super) fn free(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.table.iter()
    }

    pub(super) fn nested(&self, key: &str, table: &'a Table) -> Self {
        Self::new(self.path(key), table, self.errors)
    }

    /// Names the keys that nobody asked for.
    pub(super) fn finish(&self) {
        let known = self.known.borrow();
        for key in self.table.keys().filter(|key| !known.contains(&key.as_str())) {
            self.error(FileError::Unknown {
                path: self.path(key),
                nearest: nearest(key, &known),
            });
        }
    }
}

/// A value as it could stand in a file.
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

/// One edit for every three letters still looks like a slip; more would be a guess.
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
            const EXPECTED: &'static str = "a number that is not negative, and not too large";

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
}

impl FromValue for Duration {
    const EXPECTED: &'static str = "a time with its unit, such as \"100ms\", \"5s\", \"1m\", \"2h\" or \"30d\"";

    fn from_value(value: &Value) -> Option<Self> {
        parse_time(value.as_str()?).ok()
    }
}

/// A time, or `"none"` for no limit.
pub(super) struct Limit(pub(super) Option<Duration>);

impl FromValue for Limit {
    const EXPECTED: &'static str = "\"none\", or a time with its unit, such as \"100ms\", \"5s\", \"1m\" or \"2h\"";

    fn from_value(value: &Value) -> Option<Self> {
        if value.as_str() == Some("none") {
            return Some(Self(None));
        }
        Duration::from_value(value).map(|time| Self(Some(time)))
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

//! Settings as somebody gave them.

use std::{collections::BTreeMap, fmt, fs, path::Path, sync::Arc};

use super::{ConfigError, ConfigErrors, Origin, Setting, Source, lookup, properties, toml_text};

/// Keys and texts, unchecked, each with where it came from. Of two values of a key the later one wins, so sources are
/// layered by reading the weakest first.
///
/// ```
/// use milena_client::config::ConfigMap;
///
/// let mut map = ConfigMap::parse_properties("group.id = orders\nmax.poll.records = 100", "app.properties")?;
/// map.set("max.poll.records", 250).set("enable.auto.commit", false);
/// assert_eq!(map.get("max.poll.records"), Some("250"));
/// # Ok::<(), milena_client::config::ConfigErrors>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConfigMap {
    entries: BTreeMap<String, Entry>,
    /// Counts what was set, to know which of two names of a key came later.
    turn: u64,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: String,
    pub(super) origin: Origin,
    pub(super) turn: u64,
}

impl ConfigMap {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file: TOML if its name ends so, else Java's properties.
    pub fn read_file(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: name.clone(),
            problem: error.to_string(),
        })?;
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        if is_toml {
            Self::parse_toml(&text, &name)
        } else {
            Self::parse_properties(&text, &name)
        }
    }

    /// Reads the format of `java.util.Properties`. Messages call the text by `name`.
    pub fn parse_properties(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::from_lines(properties::parse(text), name)
    }

    /// Reads TOML, with Kafka's names in quotes, as dotted keys or as tables; arrays become lists. Messages call the text
    /// by `name`.
    ///
    /// A name that is the beginning of another, such as `debug` and `debug.level`, cannot be both a value and a table
    /// in TOML; put the longer one in quotes.
    pub fn parse_toml(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::from_lines(toml_text::parse(text), name)
    }

    pub fn set(&mut self, key: impl Into<String>, value: impl fmt::Display) -> &mut Self {
        self.set_from(key, value, Origin::Code)
    }

    /// Sets a value that came from elsewhere, such as an argument of a command.
    pub fn set_from(&mut self, key: impl Into<String>, value: impl fmt::Display, origin: Origin) -> &mut Self {
        self.turn += 1;
        let entry = Entry {
            value: value.to_string(),
            origin,
            turn: self.turn,
        };
        self.entries.insert(key.into(), entry);
        self
    }

    /// Adds settings that are stronger than those there are.
    pub fn merge(&mut self, stronger: Self) -> &mut Self {
        let mut entries: Vec<_> = stronger.entries.into_iter().collect();
        entries.sort_by_key(|(_, entry)| entry.turn);
        for (key, entry) in entries {
            self.set_from(key, entry.value, entry.origin);
        }
        self
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.entries.remove(key).map(|entry| entry.value)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|entry| entry.value.as_str())
    }

    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.entries.get(key).map(|entry| &entry.origin)
    }

    /// By key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, entry)| (key.as_str(), entry.value.as_str()))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(key, entry)| (key.as_str(), entry))
    }

    /// What a parser found. Within one file no setting wins over another of the same name.
    fn from_lines(lines: Vec<Line>, name: &str) -> Result<Self, ConfigErrors> {
        let name: Arc<str> = name.into();
        let mut map = Self::new();
        let mut errors = Vec::new();
        for Line { line, content } in lines {
            let origin = Origin::File {
                name: name.clone(),
                line,
            };
            match content {
                Err(problem) => errors.push(ConfigError::Syntax { origin, problem }),
                Ok((key, value)) => match map.entries.get(&key) {
                    Some(before) if before.value != value => errors.push(given_twice(key, before, value, origin)),
                    _ => {
                        map.set_from(key, value, origin);
                    }
                },
            }
        }
        ConfigErrors::check(errors).map(|()| map)
    }
}

/// A setting or a problem, and the line where it begins.
pub(super) struct Line {
    pub(super) line: usize,
    pub(super) content: Result<(String, String), String>,
}

fn given_twice(key: String, before: &Entry, value: String, origin: Origin) -> ConfigError {
    let setting = |value: &str, origin: Origin| Setting {
        value: lookup::shown(&key, value),
        key: key.clone(),
        source: Source::Given(origin),
    };
    ConfigError::Contradiction {
        first: Box::new(setting(&before.value, before.origin.clone())),
        second: Box::new(setting(&value, origin)),
        rule: "one file gives the same key two values; take one of them out",
    }
}

impl<K: Into<String>, V: fmt::Display> Extend<(K, V)> for ConfigMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.set(key, value);
        }
    }
}

impl<K: Into<String>, V: fmt::Display> FromIterator<(K, V)> for ConfigMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::new();
        map.extend(pairs);
        map
    }
}

impl<K: Into<String>, V: fmt::Display, const N: usize> From<[(K, V); N]> for ConfigMap {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

/// Without secrets: this ends up in logs.
impl fmt::Debug for ConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().map(|(key, value)| (key, lookup::shown(key, value)));
        f.debug_map().entries(shown).finish()
    }
}

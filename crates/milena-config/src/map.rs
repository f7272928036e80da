//! Raw settings with their origins.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

use crate::{ConfigError, ConfigErrors, Origin, Setting, Source, is_secret, properties, secrets::shown, toml_text};

/// Unchecked keys and values, each with its [`Origin`]. The later of two values of a key wins, so sources are layered
/// by adding the weakest first.
///
/// ```
/// use milena_config::ConfigMap;
///
/// let mut map = ConfigMap::parse_properties("group.id = orders\nmax.poll.records = 100", "app.properties")?;
/// map.set("max.poll.records", 250).set("enable.auto.commit", false);
/// assert_eq!(map.get("max.poll.records"), Some("250"));
/// # Ok::<(), milena_config::ConfigErrors>(())
/// ```
#[derive(Clone, Default)]
pub struct ConfigMap {
    entries: BTreeMap<String, Entry>,
    /// Sequence number of the latest entry.
    sequence: u64,
    /// Values from code that no text can express.
    objects: BTreeMap<&'static str, Arc<dyn Any + Send + Sync>>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) value: String,
    pub(crate) origin: Origin,
    /// Tells which of two names of a key was set later.
    pub(crate) sequence: u64,
    /// The text for messages, if the value must not be shown.
    pub(crate) shown: Option<String>,
}

impl Entry {
    /// The value as messages may show it.
    pub(crate) fn shown(&self, is_secret: bool) -> String {
        match &self.shown {
            Some(text) => text.clone(),
            None => shown(&self.value, is_secret),
        }
    }
}

impl ConfigMap {
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the text of a file: TOML if the name ends in `.toml`, else `.properties`. Errors refer to the file by `name`.
    pub fn parse_file(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        if name.ends_with(".toml") {
            Self::parse_toml(text, name)
        } else {
            Self::parse_properties(text, name)
        }
    }

    /// Parses the format of `java.util.Properties`. Errors refer to the text by `name`.
    pub fn parse_properties(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::from_lines(properties::parse(text), name)
    }

    /// Parses TOML, with Kafka's names in quotes, as dotted keys or as tables; arrays become lists. Errors refer to the
    /// text by `name`.
    ///
    /// A name that is the beginning of another, such as `max.connections` and `max.connections.per.ip`, cannot be both a
    /// value and a table in TOML; put the longer one in quotes.
    pub fn parse_toml(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::from_lines(toml_text::parse(text), name)
    }

    /// Parses arguments of the form `key=value`. Errors refer to them by `name`, such as `-X`.
    pub fn parse_arguments<S: AsRef<str>>(
        arguments: impl IntoIterator<Item = S>,
        name: &str,
    ) -> Result<Self, ConfigErrors> {
        let origin = Origin::Named(name.into());
        let mut map = Self::new();
        let mut errors = Vec::new();
        for argument in arguments {
            match argument.as_ref().split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    errors.extend(
                        map.insert_once(key.trim().to_owned(), value.to_owned(), origin.clone())
                            .err(),
                    );
                }
                _ => errors.push(ConfigError::Syntax {
                    origin: origin.clone(),
                    problem: format!("{:?} is not of the form key=value", argument.as_ref()),
                }),
            }
        }
        ConfigErrors::check(errors).map(|()| map)
    }

    /// Sets a value from code.
    pub fn set(&mut self, key: impl Into<String>, value: impl fmt::Display) -> &mut Self {
        self.set_from(key, value, Origin::Code)
    }

    /// Sets a value of another origin, such as an argument of a command.
    pub fn set_from(&mut self, key: impl Into<String>, value: impl fmt::Display, origin: Origin) -> &mut Self {
        self.sequence += 1;
        let entry = Entry {
            value: value.to_string(),
            origin,
            sequence: self.sequence,
            shown: None,
        };
        self.entries.insert(key.into(), entry);
        self
    }

    /// Replaces a value by what it refers to. Messages keep showing the reference.
    pub fn substitute(&mut self, key: &str, value: String) {
        if let Some(entry) = self.entries.get_mut(key) {
            let reference = std::mem::replace(&mut entry.value, value);
            entry.shown.get_or_insert(reference);
        }
    }

    /// Sets a value that no text can express, such as a callback. The crate that reads it defines its name and type.
    pub fn set_object(&mut self, name: &'static str, object: Arc<dyn Any + Send + Sync>) -> &mut Self {
        self.objects.insert(name, object);
        self
    }

    /// The object of this name, if it has this type.
    pub fn object<T: Any + Send + Sync>(&self, name: &str) -> Option<Arc<T>> {
        Arc::clone(self.objects.get(name)?).downcast().ok()
    }

    /// Adds settings that win over the present ones.
    pub fn merge(&mut self, stronger: Self) -> &mut Self {
        let mut entries: Vec<_> = stronger.entries.into_iter().collect();
        entries.sort_by_key(|(_, entry)| entry.sequence);
        for (key, entry) in entries {
            self.sequence += 1;
            let sequence = self.sequence;
            self.entries.insert(key, Entry { sequence, ..entry });
        }
        self.objects.extend(stronger.objects);
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

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries().map(|(key, entry)| (key, entry.value.as_str()))
    }

    /// Keys, values and origins, sorted by key.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        self.entries()
            .map(|(key, entry)| (key, entry.value.as_str(), &entry.origin))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(key, entry)| (key.as_str(), entry))
    }

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
                Ok((key, value)) => errors.extend(map.insert_once(key, value, origin).err()),
            }
        }
        ConfigErrors::check(errors).map(|()| map)
    }

    /// Within one source no setting wins over another of the same key.
    fn insert_once(&mut self, key: String, value: String, origin: Origin) -> Result<(), ConfigError> {
        match self.entries.get(&key) {
            Some(before) if before.value != value => Err(given_twice(&key, before, &value, origin)),
            _ => {
                self.set_from(key, value, origin);
                Ok(())
            }
        }
    }
}

/// A setting or a problem, and the line where it begins.
pub(crate) struct Line {
    pub(crate) line: usize,
    pub(crate) content: Result<(String, String), String>,
}

fn given_twice(key: &str, before: &Entry, value: &str, origin: Origin) -> ConfigError {
    let setting = |value: &str, origin: Origin| Setting {
        key: key.to_owned(),
        value: shown(value, is_secret(key)),
        source: Source::Given(origin),
    };
    ConfigError::Contradiction {
        first: Box::new(setting(&before.value, before.origin.clone())),
        second: Box::new(setting(value, origin)),
        rule: "one source gives the key two values; remove one of them",
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

impl<K: Into<String>, V: fmt::Display> From<BTreeMap<K, V>> for ConfigMap {
    fn from(pairs: BTreeMap<K, V>) -> Self {
        pairs.into_iter().collect()
    }
}

/// Objects are equal if they are the same one.
impl PartialEq for ConfigMap {
    fn eq(&self, other: &Self) -> bool {
        let addresses = |map: &Self| -> Vec<(&'static str, usize)> {
            let objects = map.objects.iter();
            objects
                .map(|(name, object)| (*name, Arc::as_ptr(object).addr()))
                .collect()
        };
        self.entries == other.entries && self.sequence == other.sequence && addresses(self) == addresses(other)
    }
}

impl Eq for ConfigMap {}

/// Without secrets: maps end up in logs.
impl fmt::Debug for ConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries().map(|(key, entry)| (key, entry.shown(is_secret(key))));
        f.debug_map().entries(entries).finish()
    }
}

//! From raw settings to a value for each key.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ConfigError, ConfigErrors, ConfigMap, ConfigType, ConfigValue, Definition, FromConfigValue, Note, Origin, Schema,
    Setting, Source, Support, Unit, ValueError, map::Entry, trim, value::has_duplicates,
};

/// The values of all keys of a [`Schema`], and the errors so far.
///
/// Errors are collected, so that all of them are reported at once: rules between keys are checked with
/// [`setting`](Self::setting) and [`given`](Self::given), which skip keys that have an error already, and report with
/// [`push_error`](Self::push_error).
pub struct Resolver {
    schema: &'static Schema,
    values: BTreeMap<&'static str, Resolved>,
    /// Keys that have an error already. Rules that depend on them are not checked.
    broken: BTreeSet<&'static str>,
    errors: Vec<ConfigError>,
    notes: Vec<Note>,
}

struct Resolved {
    value: ConfigValue,
    setting: Setting,
}

/// A setting under one of the names of its key.
struct Candidate<'a> {
    definition: &'static Definition,
    unit: Unit,
    name: &'a str,
    entry: &'a Entry,
}

impl Resolver {
    /// Checks every setting on its own. Defaults are not added yet.
    pub fn new(schema: &'static Schema, map: &ConfigMap) -> Self {
        let mut resolver = Self {
            schema,
            values: BTreeMap::new(),
            broken: BTreeSet::new(),
            errors: Vec::new(),
            notes: Vec::new(),
        };
        let mut candidates: BTreeMap<&'static str, Vec<Candidate<'_>>> = BTreeMap::new();
        for (name, entry) in map.entries() {
            match schema.find(name) {
                Some((definition, unit)) => candidates.entry(definition.name).or_default().push(Candidate {
                    definition,
                    unit,
                    name,
                    entry,
                }),
                None => resolver.errors.push(schema.explain(name, &entry.origin)),
            }
        }
        for (_, mut candidates) in candidates {
            candidates.sort_by_key(|candidate| candidate.entry.sequence);
            resolver.take_latest(&candidates);
        }
        resolver
    }

    /// Adds the defaults of a profile for keys without a value.
    pub fn add_profile(&mut self, defaults: &[(&'static str, &'static str)]) {
        for (name, text) in defaults {
            self.add(name, text, Source::Profile);
        }
    }

    /// Adds the defaults of the schema for keys without a value.
    pub fn add_defaults(&mut self) {
        for definition in self.schema.definitions().filter(|definition| definition.is_honoured()) {
            if let Some(default) = definition.default {
                self.add(definition.name, default, Source::Default);
            }
        }
    }

    /// The value of a key. The type's own default if there is none: then it has an error, or the field is unset.
    pub fn read<T: FromConfigValue + Default>(&self, name: &str) -> T {
        self.read_optional(name).unwrap_or_default()
    }

    pub fn read_optional<T: FromConfigValue>(&self, name: &str) -> Option<T> {
        T::from_config_value(&self.values.get(name)?.value)
    }

    /// The value of a text key, unless it is empty.
    pub fn text(&self, name: &str) -> Option<String> {
        self.read_optional(name).filter(|text: &String| !text.is_empty())
    }

    /// The setting of a key that was given, is not blank and has no error.
    pub fn given(&self, name: &str) -> Option<&Setting> {
        let setting = self.setting(name)?;
        let is_given = matches!(setting.source, Source::Given(_)) && !trim(&setting.value).is_empty();
        Some(setting).filter(|_| is_given)
    }

    /// The setting of a key that has a value and no error.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        let resolved = self.values.get(name).filter(|_| !self.broken.contains(name))?;
        Some(&resolved.setting)
    }

    /// Whether a key has an error already.
    pub fn is_broken(&self, name: &str) -> bool {
        self.broken.contains(name)
    }

    /// Replaces the value of a key with another default.
    pub fn set_default(&mut self, name: &'static str, text: &str) {
        self.values.remove(name);
        self.add(name, text, Source::Default);
    }

    /// Gives a key the value of another one.
    pub fn copy(&mut self, from: &str, to: &'static str) {
        if let Some(Resolved { value, setting }) = self.values.get(from) {
            let copied = Resolved {
                value: value.clone(),
                setting: Setting {
                    key: to.to_owned(),
                    ..setting.clone()
                },
            };
            self.values.insert(to, copied);
        }
    }

    pub fn push_note(&mut self, note: Note) {
        self.notes.push(note);
    }

    pub fn push_error(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// Reports that two settings conflict. `rule` says why, and what to do.
    pub fn contradict(&mut self, first: Setting, second: Setting, rule: &'static str) {
        self.errors.push(ConfigError::Contradiction {
            first: Box::new(first),
            second: Box::new(second),
            rule,
        });
    }

    /// Reports a conflict unless `holds` is true of the numbers of two keys.
    pub fn compare(&mut self, first: &str, second: &str, rule: &'static str, holds: fn(i64, i64) -> bool) {
        let (Some(one), Some(other)) = (self.setting(first).cloned(), self.setting(second).cloned()) else {
            return;
        };
        if !holds(self.read(first), self.read(second)) {
            self.contradict(one, other, rule);
        }
    }

    /// Returns the notes and the settings of all keys that have an effect, sorted by key; or all errors.
    pub fn finish(self) -> Result<(Vec<Note>, Vec<Setting>), ConfigErrors> {
        ConfigErrors::check(self.errors)?;
        let settings = self.values.into_values().map(|resolved| resolved.setting);
        Ok((self.notes, settings.collect()))
    }

    fn take_latest(&mut self, candidates: &[Candidate<'_>]) {
        let Some((latest, others)) = candidates.split_last() else {
            return;
        };
        for other in others {
            if other.entry.origin.is_same_file(&latest.entry.origin) && other.text() != latest.text() {
                let rule = "both are names of the same key; remove one of them";
                self.contradict(other.setting(), latest.setting(), rule);
            }
        }
        let definition = latest.definition;
        match latest.value() {
            // A key that takes only its default has no effect.
            Ok(_) if !definition.is_honoured() => self.notes.extend(latest.ignored()),
            Ok(value) => {
                self.notes.extend(latest.note());
                let setting = Setting {
                    key: definition.name.to_owned(),
                    value: latest.shown_in_unit(),
                    source: Source::Given(latest.entry.origin.clone()),
                };
                self.values.insert(definition.name, Resolved { value, setting });
            }
            Err(error) => {
                self.broken.insert(definition.name);
                self.errors.push(error);
            }
        }
    }

    /// Adds a value for a key that has none.
    fn add(&mut self, name: &'static str, text: &str, source: Source) {
        let Some(definition) = self.schema.get(name) else {
            return;
        };
        if let Ok(value) = ConfigValue::parse(definition, text) {
            self.values.entry(name).or_insert_with(|| Resolved {
                value,
                setting: Setting {
                    key: name.to_owned(),
                    value: text.to_owned(),
                    source,
                },
            });
        }
    }
}

impl Candidate<'_> {
    /// The value in the unit of the key; `None` if it cannot be converted.
    fn text(&self) -> Option<String> {
        self.unit.convert(&self.entry.value)
    }

    fn value(&self) -> Result<ConfigValue, ConfigError> {
        let text = self.text().ok_or_else(|| self.invalid(self.number_in_unit()))?;
        ConfigValue::parse(self.definition, &text).map_err(|error| match error {
            ValueError::Invalid { expected } => self.invalid(self.in_unit(expected)),
            ValueError::Unsupported { why } => ConfigError::Unsupported {
                key: self.name.to_owned(),
                origin: self.origin(),
                why,
            },
        })
    }

    /// The expected value of a setting that could not be converted.
    fn number_in_unit(&self) -> String {
        match self.unit {
            Unit::Kilobytes => "a number of kilobytes",
            Unit::Minutes => "a number of minutes",
            Unit::Hours => "a number of hours",
            Unit::Same | Unit::ZeroIsMinusOne | Unit::ZeroIsForever => "a number",
        }
        .to_owned()
    }

    /// The expected value, for a setting under an alias of another unit.
    fn in_unit(&self, expected: String) -> String {
        match self.unit {
            Unit::Kilobytes => format!("{expected}, counted in bytes"),
            Unit::Minutes | Unit::Hours => format!("{expected}, counted in milliseconds"),
            Unit::Same | Unit::ZeroIsMinusOne | Unit::ZeroIsForever => expected,
        }
    }

    fn ignored(&self) -> Option<Note> {
        let (key, origin) = (self.name.to_owned(), self.origin());
        match self.definition.support {
            Support::Ignored { reason: why } => Some(Note::NoEffect { key, origin, why }),
            _ => None,
        }
    }

    fn note(&self) -> Option<Note> {
        let Self { definition, entry, .. } = self;
        let (key, origin) = (self.name.to_owned(), self.origin());
        if self.name != definition.name {
            let meant = definition.name;
            return Some(Note::OtherName { key, origin, meant });
        }
        let text = trim(&entry.value);
        if let Some((_, meant)) = definition.value_aliases.iter().find(|(other, _)| *other == text) {
            return Some(Note::OtherValue {
                key,
                origin,
                value: entry.value.clone(),
                meant,
            });
        }
        let repeats = definition.config_type == ConfigType::List && has_duplicates(&entry.value);
        repeats.then_some(Note::Repeated { key, origin })
    }

    fn invalid(&self, expected: String) -> ConfigError {
        ConfigError::Invalid {
            key: self.name.to_owned(),
            origin: self.origin(),
            value: self.shown(),
            expected,
        }
    }

    fn setting(&self) -> Setting {
        Setting {
            key: self.name.to_owned(),
            value: self.shown(),
            source: Source::Given(self.origin()),
        }
    }

    fn shown(&self) -> String {
        self.entry.shown(self.definition.is_sensitive())
    }

    /// The value in the unit of the key, as messages may show it.
    fn shown_in_unit(&self) -> String {
        let is_shown = self.entry.shown.is_none() && !self.definition.is_sensitive();
        // An empty value stays recognizable as one.
        if is_shown || self.entry.value.is_empty() {
            self.text().unwrap_or_default()
        } else {
            self.shown()
        }
    }

    fn origin(&self) -> Origin {
        self.entry.origin.clone()
    }
}

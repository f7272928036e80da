//! From raw settings to a value for each key.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AliasUnit, AutoOffsetReset, ClientKind, ConfigError, ConfigErrors, ConfigMap, ConfigType, Definition, Note, Origin,
    Profile, Setting, Source, Support, lookup,
    map::Entry,
    value::{self, ConfigValue, FromConfigValue, Refusal},
};

/// The values of all keys, and what is wrong with them so far.
pub(super) struct Resolver {
    client: ClientKind,
    values: BTreeMap<&'static str, Resolved>,
    /// Keys that have an error already. What depends on their values is not judged.
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
    unit: AliasUnit,
    name: &'a str,
    entry: &'a Entry,
}

impl Resolver {
    pub(super) fn new(client: ClientKind, map: &ConfigMap) -> Self {
        let mut resolver = Self {
            client,
            values: BTreeMap::new(),
            broken: BTreeSet::new(),
            errors: Vec::new(),
            notes: Vec::new(),
        };
        let mut candidates: BTreeMap<&'static str, Vec<Candidate<'_>>> = BTreeMap::new();
        for (name, entry) in map.entries() {
            match lookup::find(client, name) {
                Some((definition, unit)) => candidates.entry(definition.name).or_default().push(Candidate {
                    definition,
                    unit,
                    name,
                    entry,
                }),
                None => resolver.errors.push(lookup::explain(client, name, &entry.origin)),
            }
        }
        for (_, mut candidates) in candidates {
            candidates.sort_by_key(|candidate| candidate.entry.turn);
            resolver.take_strongest(&candidates);
        }
        resolver.add_profile();
        resolver.add_defaults();
        resolver
    }

    /// The value of a key; the type's own default if there is none, which is an error already or a field that is unset.
    pub(super) fn read<T: FromConfigValue + Default>(&self, name: &str) -> T {
        self.read_optional(name).unwrap_or_default()
    }

    pub(super) fn read_optional<T: FromConfigValue>(&self, name: &str) -> Option<T> {
        T::from_config_value(&self.values.get(name)?.value)
    }

    /// A text that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        match &self.values.get(name)?.value {
            ConfigValue::Text(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    /// What somebody gave a key, unless that has an error already or is blank.
    pub(super) fn given(&self, name: &str) -> Option<&Setting> {
        let setting = &self.values.get(name)?.setting;
        let given = matches!(setting.source, Source::Given(_)) && !value::trim(&setting.value).is_empty();
        Some(setting).filter(|_| given && !self.broken.contains(name))
    }

    /// The setting of a key that has a value and no error.
    pub(super) fn setting(&self, name: &str) -> Option<&Setting> {
        let resolved = self.values.get(name).filter(|_| !self.broken.contains(name))?;
        Some(&resolved.setting)
    }

    pub(super) fn is_broken(&self, name: &str) -> bool {
        self.broken.contains(name)
    }

    pub(super) fn is_consumer_protocol(&self) -> bool {
        let protocol = self.text("group.protocol");
        protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"))
    }

    /// Gives a key another default.
    pub(super) fn set_default(&mut self, name: &'static str, text: &str) {
        self.values.remove(name);
        self.add(name, text, Source::Default);
    }

    /// Gives a key the value of another one.
    pub(super) fn copy(&mut self, from: &str, to: &'static str) {
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

    pub(super) fn offend(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// What is to be told, and every key that does something.
    pub(super) fn finish(self) -> Result<(Vec<Note>, Vec<Setting>), ConfigErrors> {
        ConfigErrors::check(self.errors)?;
        let settings = self.values.into_values().map(|resolved| resolved.setting);
        Ok((self.notes, settings.collect()))
    }

    fn take_strongest(&mut self, candidates: &[Candidate<'_>]) {
        let Some((strongest, others)) = candidates.split_last() else {
            return;
        };
        for other in others {
            if other.entry.origin.is_same_file(&strongest.entry.origin) && other.text() != strongest.text() {
                self.errors.push(ConfigError::Contradiction {
                    first: Box::new(other.setting()),
                    second: Box::new(strongest.setting()),
                    rule: "they are names of the same key; take one of them out",
                });
            }
        }
        let definition = strongest.definition;
        match strongest.value() {
            // What can only have its default is nothing that anybody reads.
            Ok(_) if definition.support != Support::Honoured => {}
            Ok(value) => {
                self.note(strongest);
                let setting = Setting {
                    key: definition.name.to_owned(),
                    value: strongest.text().unwrap_or_default(),
                    source: Source::Given(strongest.entry.origin.clone()),
                };
                self.values.insert(definition.name, Resolved { value, setting });
            }
            Err(error) => {
                self.broken.insert(definition.name);
                self.errors.push(error);
            }
        }
    }

    fn note(&mut self, candidate: &Candidate<'_>) {
        let Candidate {
            definition,
            name,
            entry,
            ..
        } = candidate;
        let (key, origin) = ((*name).to_owned(), entry.origin.clone());
        if *name != definition.name {
            let meant = definition.name;
            self.notes.push(Note::OtherName { key, origin, meant });
        } else if let Some(meant) = new_value(name, &entry.value) {
            let value = entry.value.clone();
            self.notes.push(Note::OtherValue {
                key,
                origin,
                value,
                meant,
            });
        } else if definition.config_type == ConfigType::List && value::has_repeated(&entry.value) {
            self.notes.push(Note::Repeated { key, origin });
        }
    }

    fn add_profile(&mut self) {
        let Some(profile) = self.read_optional::<Profile>("milena.profile") else {
            return;
        };
        for (name, text) in profile.defaults() {
            self.add(name, text, Source::Profile);
        }
    }

    fn add_defaults(&mut self) {
        for definition in self.client.definitions() {
            if let (Support::Honoured, Some(default)) = (definition.support, definition.default) {
                self.add(definition.name, default, Source::Default);
            }
        }
    }

    /// Adds a value where there is none yet.
    fn add(&mut self, name: &'static str, text: &str, source: Source) {
        let Some((definition, _)) = lookup::find(self.client, name) else {
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

/// The name that a value has today.
fn new_value(name: &str, text: &str) -> Option<&'static str> {
    let is_policy = name == "auto.offset.reset";
    is_policy.then(|| AutoOffsetReset::new_name(value::trim(text)))?
}

impl Candidate<'_> {
    /// The text as the key would have it; `None` if the value cannot be converted.
    fn text(&self) -> Option<String> {
        let given = &self.entry.value;
        match self.unit {
            AliasUnit::Same => Some(given.clone()),
            AliasUnit::ZeroIsMinusOne if value::trim(given) == "0" => Some("-1".to_owned()),
            AliasUnit::ZeroIsMinusOne => Some(given.clone()),
            AliasUnit::ZeroIsForever if value::trim(given) == "0" => Some(i32::MAX.to_string()),
            AliasUnit::ZeroIsForever => Some(given.clone()),
            AliasUnit::Kilobytes => {
                let kilobytes: i64 = value::trim(given).parse().ok()?;
                kilobytes.checked_mul(1024).map(|bytes| bytes.to_string())
            }
        }
    }

    fn value(&self) -> Result<ConfigValue, ConfigError> {
        let text = self
            .text()
            .ok_or_else(|| self.invalid("a whole number of kilobytes".to_owned()))?;
        ConfigValue::parse(self.definition, &text).map_err(|refusal| match refusal {
            Refusal::Invalid(expected) => self.invalid(self.in_unit(expected)),
            Refusal::Unsupported(why) => ConfigError::Unsupported {
                key: self.name.to_owned(),
                origin: self.origin(),
                why,
            },
        })
    }

    /// What is expected of the key, for somebody who gave it by its other name.
    fn in_unit(&self, expected: String) -> String {
        match self.unit {
            AliasUnit::Kilobytes => format!("{expected}, counted in bytes"),
            AliasUnit::Same | AliasUnit::ZeroIsMinusOne | AliasUnit::ZeroIsForever => expected,
        }
    }

    fn invalid(&self, expected: String) -> ConfigError {
        ConfigError::Invalid {
            key: self.name.to_owned(),
            origin: self.origin(),
            value: lookup::shown(self.name, &self.entry.value),
            expected,
        }
    }

    fn setting(&self) -> Setting {
        Setting {
            key: self.name.to_owned(),
            value: lookup::shown(self.name, &self.entry.value),
            source: Source::Given(self.origin()),
        }
    }

    fn origin(&self) -> Origin {
        self.entry.origin.clone()
    }
}

//! The keys of one kind of configuration: lookup, and explanations for keys that it does not have.

use std::fmt;

use crate::{
    Alias, ConfigError, ConfigValue, Definition, Origin, Unit, ValueError,
    names::{NAME_LENGTH_MAX, nearest, normalized},
    secrets::shown,
};

/// The keys of one kind of configuration, such as that of the consumer.
pub struct Schema {
    /// The name in messages, as in "the consumer".
    pub name: &'static str,
    /// The document that lists all keys.
    pub page: Option<&'static str>,
    pub tables: &'static [Table],
    /// Prefixes that frameworks put before Kafka's names, for suggestions. The longest first.
    pub prefixes: &'static [&'static str],
    /// Names that Kafka once had or that people write, each with the key that is meant.
    pub old_names: &'static [(&'static str, &'static str)],
    /// Keys of others, by owner. A name that ends in a dot stands for all names that begin so.
    pub owners: &'static [(&'static str, &'static [&'static str])],
    /// Other configurations: a key of theirs is explained, not taken for a slip.
    pub others: &'static [&'static Self],
    /// Keys that are refused, by reason. A name that ends in a dot stands for all names that begin so.
    pub unsupported: &'static [(&'static str, &'static [&'static str])],
}

/// Keys that stand in one table, sorted by name.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The heading in the reference over those keys that take only their default; `None` for the common one.
    pub heading: Option<&'static str>,
    /// Whether the keys are suggested for misspelt ones.
    pub suggested: bool,
    pub definitions: &'static [Definition],
}

impl Table {
    pub const fn new(definitions: &'static [Definition]) -> Self {
        Self {
            heading: None,
            suggested: true,
            definitions,
        }
    }
}

impl Schema {
    /// A schema with one table and nothing else.
    pub const fn new(name: &'static str, tables: &'static [Table]) -> Self {
        Self {
            name,
            page: None,
            tables,
            prefixes: &[],
            old_names: &[],
            owners: &[],
            others: &[],
            unsupported: &[],
        }
    }

    /// All keys, table by table.
    pub fn definitions(&self) -> impl Iterator<Item = &'static Definition> + Clone {
        self.tables.iter().flat_map(|table| table.definitions)
    }

    /// The definition of a key.
    pub fn get(&self, name: &str) -> Option<&'static Definition> {
        self.tables.iter().find_map(|table| {
            let index = table
                .definitions
                .binary_search_by_key(&name, |definition| definition.name);
            table.definitions.get(index.ok()?)
        })
    }

    /// The definition of a key under its name or an alias, with the unit of that alias.
    pub fn find(&self, name: &str) -> Option<(&'static Definition, Unit)> {
        if let Some(definition) = self.get(name) {
            return Some((definition, Unit::Same));
        }
        self.definitions().find_map(|definition| {
            let alias = definition.aliases.iter().find(|alias| alias.name == name);
            alias.map(|Alias { unit, .. }| (definition, *unit))
        })
    }

    /// The definition of a key, or the reason why there is none.
    pub fn require(&self, name: &str, origin: &Origin) -> Result<&'static Definition, ConfigError> {
        self.get(name).ok_or_else(|| self.explain(name, origin))
    }

    /// Parses the value of a key.
    pub fn parse(&self, name: &str, text: &str, origin: &Origin) -> Result<ConfigValue, ConfigError> {
        let definition = self.require(name, origin)?;
        ConfigValue::parse(definition, text).map_err(|error| match error {
            ValueError::Invalid { expected } => ConfigError::Invalid {
                key: name.to_owned(),
                origin: origin.clone(),
                value: shown(text, definition.is_sensitive()),
                expected,
            },
            ValueError::Unsupported { why } => ConfigError::Unsupported {
                key: name.to_owned(),
                origin: origin.clone(),
                why,
            },
        })
    }

    /// Explains why a name is not a key.
    pub fn explain(&self, name: &str, origin: &Origin) -> ConfigError {
        let (key, origin) = (name.to_owned(), origin.clone());
        let unknown = |nearest| ConfigError::UnknownKey {
            schema: self.name,
            page: self.page,
            key: name.to_owned(),
            origin: origin.clone(),
            nearest,
        };
        if let Some(synonym) = self.synonym(name) {
            return unknown(Some(synonym));
        }
        if let Some(owner) = self.owner(name) {
            let schema = self.name;
            return ConfigError::OtherOwner {
                schema,
                key,
                origin,
                owner,
            };
        }
        match reason(self.unsupported, name) {
            Some(why) => ConfigError::Unsupported { key, origin, why },
            None => unknown(self.suggestion(name)),
        }
    }

    /// The owner of a key that is not ours.
    pub fn owner(&self, name: &str) -> Option<&'static str> {
        if self.find(name).is_some() {
            return None;
        }
        let of_others = || self.others.iter().find(|other| other.find(name).is_some());
        reason(self.owners, name).or_else(|| of_others().map(|other| other.name))
    }

    /// The key that was probably meant, if any is near enough.
    pub fn suggestion(&self, name: &str) -> Option<&'static str> {
        if name.len() > NAME_LENGTH_MAX {
            return None;
        }
        let name = normalized(name);
        let mut prefixes = self.prefixes.iter();
        let name = prefixes.find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
        let old = self.old_names.iter().find(|(old, _)| *old == name);
        old.map(|(_, current)| *current)
            .or_else(|| nearest(name, self.suggested()))
    }

    /// The key of the same meaning: `log.retention.ms` of the broker is `retention.ms` of a topic, and back.
    fn synonym(&self, name: &str) -> Option<&'static str> {
        let follows = |definition: &&Definition| definition.synonyms.iter().any(|synonym| synonym.name == name);
        if let Some(definition) = self.definitions().find(follows) {
            return Some(definition.name);
        }
        let mut same = self.others.iter().filter_map(|other| other.get(name));
        let synonym = same.find_map(|definition| definition.synonyms.first())?;
        self.get(synonym.name).map(|definition| definition.name)
    }

    fn suggested(&self) -> impl Iterator<Item = &'static str> + Clone {
        let tables = self.tables.iter().filter(|table| table.suggested);
        let shown = tables.flat_map(|table| table.definitions).filter(|one| !one.hidden);
        shown.map(|definition| definition.name)
    }
}

/// The name alone: schemas refer to each other.
impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.name).finish()
    }
}

/// The reason or owner under which a list has the name.
fn reason(lists: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    let matches = |known: &&str| *known == name || (known.ends_with('.') && name.starts_with(*known));
    let list = lists.iter().find(|(_, names)| names.iter().any(matches));
    list.map(|(reason, _)| *reason)
}

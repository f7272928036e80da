//! Kafka's message definitions as they stand in the JSON files.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Definition {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    pub(crate) api_key: Option<i16>,
    #[serde(default)]
    #[expect(dead_code, reason = "a fact of the definition that no generated code needs yet")]
    listeners: Vec<String>,
    pub(crate) valid_versions: Versions,
    pub(crate) flexible_versions: Versions,
    #[serde(default)]
    pub(crate) latest_version_unstable: bool,
    pub(crate) fields: Vec<Field>,
    #[serde(default)]
    pub(crate) common_structs: Vec<CommonStruct>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Request,
    Response,
    Header,
    Data,
    CoordinatorKey,
    CoordinatorValue,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CommonStruct {
    pub(crate) name: String,
    #[expect(dead_code, reason = "every use of the struct has versions of its own")]
    versions: Versions,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Field {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) ty: String,
    /// Absent for a few tagged fields, which then exist where they are tagged.
    versions: Option<Versions>,
    #[serde(default)]
    pub(crate) nullable_versions: Versions,
    pub(crate) tag: Option<u32>,
    #[serde(default)]
    pub(crate) tagged_versions: Versions,
    #[serde(default, deserialize_with = "present")]
    pub(crate) default: Option<Value>,
    #[serde(default)]
    pub(crate) ignorable: bool,
    /// Overrides the message's flexible versions for this field alone.
    pub(crate) flexible_versions: Option<Versions>,
    pub(crate) fields: Option<Vec<Self>>,
    #[serde(default, rename = "entityType")]
    _entity_type: Option<String>,
    #[serde(default, rename = "mapKey")]
    _map_key: bool,
    #[serde(default, rename = "zeroCopy")]
    _zero_copy: bool,
}

impl Field {
    pub(crate) fn versions(&self) -> Versions {
        self.versions.unwrap_or(self.tagged_versions)
    }
}

/// Distinguishes a default of `null` from no default.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A range of versions; an open one ends at `i16::MAX`, an empty one has `min > max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) min: i16,
    pub(crate) max: i16,
}

impl Versions {
    pub(crate) const NONE: Self = Self { min: 0, max: -1 };

    pub(crate) fn is_empty(self) -> bool {
        self.min > self.max
    }

    pub(crate) fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    pub(crate) fn intersect(self, other: Self) -> Self {
        let both = Self {
            min: self.min.max(other.min),
            max: self.max.min(other.max),
        };
        if both.is_empty() { Self::NONE } else { both }
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        self.intersect(other) == other
    }

    fn parse(text: &str) -> Result<Self> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        let number = |text: &str| text.parse().with_context(|| format!("{text:?} is not a version"));
        Ok(match (text.strip_suffix('+'), text.split_once('-')) {
            (Some(min), _) => Self {
                min: number(min)?,
                max: i16::MAX,
            },
            (None, Some((min, max))) => Self {
                min: number(min)?,
                max: number(max)?,
            },
            (None, None) => Self {
                min: number(text)?,
                max: number(text)?,
            },
        })
    }
}

impl Default for Versions {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'de> Deserialize<'de> for Versions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// One row of `errors.txt`.
pub(crate) struct ErrorCode {
    pub(crate) code: i16,
    pub(crate) name: String,
    pub(crate) exception: String,
    pub(crate) retriable: bool,
    pub(crate) invalidates_metadata: bool,
}

/// Reads every definition below `folder`, in the order of their names.
pub(crate) fn read_definitions(folder: &Path) -> Result<Vec<Definition>> {
    let mut definitions = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let text = fs::read_to_string(&path)?;
                let definition: Definition =
                    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
                ensure!(
                    !definition.valid_versions.is_empty(),
                    "{} has no version",
                    path.display()
                );
                definitions.push(definition);
            }
        }
    }
    definitions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(definitions)
}

pub(crate) fn read_error_codes(file: &Path) -> Result<Vec<ErrorCode>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let [code, name, exception, retriable, invalidates_metadata] = line.split(' ').collect::<Vec<_>>()[..] else {
            bail!("{}: {line:?} does not have five columns", file.display());
        };
        Ok(ErrorCode {
            code: code.parse()?,
            name: name.to_owned(),
            exception: exception.to_owned(),
            retriable: retriable.parse()?,
            invalidates_metadata: invalidates_metadata.parse()?,
        })
    })
    .collect()
}

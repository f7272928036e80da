//! A definition, resolved for the generator: Rust names, types, defaults, smallest sizes.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::definition::{self, Definition, Kind, Versions};

pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) api_key: Option<i16>,
    pub(crate) versions: Versions,
    pub(crate) flexible: Versions,
    pub(crate) unstable: bool,
    /// The message itself first, then the structs inside it in the order they appear.
    pub(crate) structs: Vec<Struct>,
}

pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    /// Kafka's name in snake case, as its own schemas spell it; also names the field in errors.
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Cut to the versions of the message, as are the next three.
    pub(crate) versions: Versions,
    pub(crate) nullable: Versions,
    pub(crate) tagged: Versions,
    pub(crate) flexible: Versions,
    pub(crate) tag: Option<u32>,
    pub(crate) default: Value,
    pub(crate) ignorable: bool,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Type {
    Bool,
    I8,
    I16,
    U16,
    I32,
    I64,
    F64,
    Uuid,
    String,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Self>),
}

impl Message {
    pub(crate) fn resolve(definition: &Definition) -> Result<Self> {
        let mut structs = vec![];
        let versions = definition.valid_versions;
        let flexible = definition.flexible_versions.intersect(versions);
        let inherited = Inherited { versions, flexible };
        inherited.resolve_struct(&definition.name, &definition.fields, &mut structs)?;
        for common in &definition.common_structs {
            inherited.resolve_struct(&common.name, &common.fields, &mut structs)?;
        }
        Ok(Self {
            name: definition.name.clone(),
            kind: definition.kind,
            api_key: definition.api_key,
            versions,
            flexible,
            unstable: definition.latest_version_unstable,
            structs,
        })
    }

    /// The module and file of the message.
    pub(crate) fn module(&self) -> String {
        snake_case(&self.name)
    }

    /// The fewest bytes that a value of `ty` takes in any version: the bound for a hostile count.
    pub(crate) fn smallest(&self, ty: &Type) -> Result<usize> {
        let by_name: HashMap<&str, &Struct> = self.structs.iter().map(|s| (s.name.as_str(), s)).collect();
        (self.versions.min..=self.versions.max)
            .filter_map(|version| self.smallest_at(ty, version, &by_name).transpose())
            .min_by_key(|size| size.as_ref().copied().unwrap_or(0))
            .context("no version has this type")?
    }

    /// `None` for a struct that has no field at this version, and is therefore not in it.
    fn smallest_at(&self, ty: &Type, version: i16, structs: &HashMap<&str, &Struct>) -> Result<Option<usize>> {
        let flexible = self.flexible.contains(version);
        Ok(Some(match ty {
            Type::Bool | Type::I8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 => 4,
            Type::I64 | Type::F64 => 8,
            Type::Uuid => 16,
            Type::String if flexible => 1,
            Type::String => 2,
            Type::Bytes | Type::Records | Type::Array(_) if flexible => 1,
            Type::Bytes | Type::Records | Type::Array(_) => 4,
            Type::Struct(name) => {
                let Some(inside) = structs.get(name.as_str()) else {
                    bail!("struct {name} is not defined");
                };
                let mut size = usize::from(flexible);
                let present = |field: &&Field| field.versions.contains(version) && !field.tagged.contains(version);
                if !inside.fields.iter().any(|field| field.versions.contains(version)) {
                    return Ok(None);
                }
                for field in inside.fields.iter().filter(present) {
                    size += match field.ty {
                        Type::Struct(_) if field.nullable.contains(version) => 1,
                        _ => self.smallest_at(&field.ty, version, structs)?.unwrap_or(0),
                    };
                }
                ensure!(
                    size > 0,
                    "a count of {name} at version {version} is not bounded by any byte"
                );
                size
            }
        }))
    }
}

/// Properties that fields inherit from their message.
struct Inherited {
    versions: Versions,
    flexible: Versions,
}

impl Inherited {
    fn resolve_struct(&self, name: &str, fields: &[definition::Field], structs: &mut Vec<Struct>) -> Result<()> {
        ensure!(structs.iter().all(|s| s.name != name), "struct {name} is defined twice");
        let place = structs.len();
        structs.push(Struct {
            name: name.to_owned(),
            fields: vec![],
        });
        let mut resolved = vec![];
        for field in fields {
            // A field that only versions before the message's first had.
            if field.versions().intersect(self.versions).is_empty() {
                continue;
            }
            let field_resolved = self
                .resolve_field(field)
                .with_context(|| format!("field {}", field.name))?;
            if let Some(inner) = &field.fields {
                self.resolve_struct(field.ty.trim_start_matches("[]"), inner, structs)?;
            }
            resolved.push(field_resolved);
        }
        structs[place].fields = resolved;
        Ok(())
    }

    fn resolve_field(&self, field: &definition::Field) -> Result<Field> {
        let ty = Type::parse(&field.ty);
        let versions = field.versions().intersect(self.versions);
        let default = match &field.default {
            Some(default) => normalise_default(&ty, default)?,
            None => ty.plain_default(),
        };
        Ok(Field {
            name: snake_case(&field.name),
            ty,
            versions,
            nullable: field.nullable_versions.intersect(versions),
            tagged: field.tagged_versions.intersect(versions),
            flexible: field
                .flexible_versions
                .unwrap_or(self.flexible)
                .intersect(self.versions),
            tag: field.tag,
            default,
            ignorable: field.ignorable,
        })
    }
}

impl Type {
    fn parse(text: &str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::Array(Box::new(Self::parse(element)));
        }
        match text {
            "bool" => Self::Bool,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "uint16" => Self::U16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            "float64" => Self::F64,
            "uuid" => Self::Uuid,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            name => Self::Struct(name.to_owned()),
        }
    }

    fn plain_default(&self) -> Value {
        match self {
            Self::Bool => Value::Bool(false),
            Self::I8 | Self::I16 | Self::U16 | Self::I32 | Self::I64 | Self::F64 => Value::from(0),
            Self::String => Value::from(""),
            Self::Uuid | Self::Bytes | Self::Records | Self::Struct(_) | Self::Array(_) => Value::from("empty"),
        }
    }
}

/// Definitions write numbers, booleans and null both bare and as text.
fn normalise_default(ty: &Type, default: &Value) -> Result<Value> {
    let Value::String(text) = default else {
        return Ok(default.clone());
    };
    Ok(match ty {
        _ if text == "null" => Value::Null,
        Type::Bool => Value::Bool(text.parse()?),
        Type::I8 | Type::I16 | Type::U16 | Type::I32 | Type::I64 => match text.strip_prefix("0x") {
            Some(hex) => Value::from(i64::from_str_radix(hex, 16)?),
            None => Value::from(text.parse::<i64>()?),
        },
        Type::String => default.clone(),
        _ => bail!("no rule for the default {text:?}"),
    })
}

/// Kafka's own rule: an underscore before a capital that does not follow another.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut after_capital = true;
    for c in name.chars() {
        if c.is_ascii_uppercase() && !after_capital {
            snake.push('_');
        }
        after_capital = c.is_ascii_uppercase();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

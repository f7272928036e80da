//! The reference pages, written from the definitions.

use std::fmt::Write as _;

use crate::{Allowed, ConfigType, Definition, Schema, Support, Unit};

/// Writes the reference of all keys of a schema as Markdown. `introduction` follows the title.
pub fn document(schema: &Schema, introduction: &str) -> String {
    let mut page = format!("# Configuration of {}\n\n{introduction}", schema.name);
    add_keys(&mut page, schema);
    add_deviations(&mut page, schema);
    add_default_only(&mut page, schema, None, "Keys of Kafka that take only their default");
    let mut headings: Vec<&str> = schema.tables.iter().filter_map(|table| table.heading).collect();
    headings.dedup();
    for heading in headings {
        add_default_only(&mut page, schema, Some(heading), heading);
    }
    add_aliases(&mut page, schema);
    page
}

fn add_keys(page: &mut String, schema: &Schema) {
    let shown = |definition: &&Definition| definition.is_honoured() && !definition.hidden;
    let mut definitions: Vec<&Definition> = schema.definitions().filter(shown).collect();
    definitions.sort_by_key(|definition| definition.name);
    let rows = definitions.into_iter().map(|definition| {
        vec![
            code(definition.name),
            default(definition),
            allowed(definition),
            definition.importance.to_string(),
            definition.documentation.to_owned(),
        ]
    });
    let heads = ["key", "default", "allowed", "importance", "description"];
    add_table(page, "Keys", &heads, rows.collect());
}

fn add_deviations(page: &mut String, schema: &Schema) {
    let rows = schema.definitions().filter_map(|definition| {
        let deviation = definition.deviation?;
        let kafkas = deviation
            .kafkas_default
            .map_or_else(|| "none: required".to_owned(), code);
        let reason = deviation.reason.to_owned();
        Some(vec![code(definition.name), default(definition), kafkas, reason])
    });
    let heads = ["key", "default", "in Kafka", "reason"];
    add_table(page, "Defaults that differ from Kafka's", &heads, rows.collect());
}

/// The keys of all tables with this heading that take only their default, sorted by name.
fn add_default_only(page: &mut String, schema: &Schema, heading: Option<&str>, title: &str) {
    let tables = schema.tables.iter().filter(|table| table.heading == heading);
    let mut definitions: Vec<&Definition> = tables.flat_map(|table| table.definitions).collect();
    definitions.sort_by_key(|definition| definition.name);
    let shown = definitions.into_iter().filter(|definition| !definition.hidden);
    let rows = shown.filter_map(|definition| {
        let reason = match definition.support {
            Support::Honoured => return None,
            Support::DefaultOnly { reason, .. } => reason.to_owned(),
            Support::Ignored { reason } => format!("accepted without effect: {reason}"),
        };
        let (name, about) = (code(definition.name), definition.documentation.to_owned());
        Some(vec![name, default(definition), about, reason])
    });
    add_table(
        page,
        title,
        &["key", "default", "description", "reason"],
        rows.collect(),
    );
}

fn add_aliases(page: &mut String, schema: &Schema) {
    let keys = schema.definitions().flat_map(|definition| {
        let aliases = definition.aliases.iter();
        aliases.map(|alias| {
            vec![
                code(alias.name),
                code(definition.name),
                conversion(alias.unit).to_owned(),
            ]
        })
    });
    add_table(page, "Aliases of keys", &["alias", "key", "value"], keys.collect());
    let values = schema.definitions().flat_map(|definition| {
        let aliases = definition.value_aliases.iter();
        aliases.map(|(alias, value)| vec![code(definition.name), code(alias), code(value)])
    });
    add_table(page, "Aliases of values", &["key", "alias", "value"], values.collect());
}

const fn conversion(unit: Unit) -> &'static str {
    match unit {
        Unit::Same => "same",
        Unit::Kilobytes => "in units of 1024 bytes",
        Unit::Minutes => "in minutes",
        Unit::Hours => "in hours",
        Unit::ZeroIsMinusOne => "same, but 0 means -1",
        Unit::ZeroIsForever => "same, but 0 means 2147483647",
    }
}

/// Adds a section with a table, unless it has no rows.
fn add_table(page: &mut String, title: &str, heads: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(page, "\n## {title}\n\n| {} |", heads.join(" | "));
    let _ = writeln!(page, "|{}", "---|".repeat(heads.len()));
    for row in rows {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn default(definition: &Definition) -> String {
    match definition.default {
        None if definition.required => "required".to_owned(),
        None => "none".to_owned(),
        Some("") => "empty".to_owned(),
        // A line can break between the elements of a list.
        Some(text) => text.split(',').map(code).collect::<Vec<_>>().join(", "),
    }
}

fn allowed(definition: &Definition) -> String {
    let config_type = format!("{:?}", definition.config_type).to_lowercase();
    match definition.allowed {
        Allowed::Any if definition.config_type == ConfigType::Boolean => "true, false".to_owned(),
        Allowed::AtLeast(_) | Allowed::Between(..) | Allowed::BetweenOr(..) => {
            format!("{config_type}, {}", definition.allowed)
        }
        Allowed::OneOf(names) => names.join(", "),
        Allowed::OneOfInAnyCase(names) => names.join(", ").to_lowercase(),
        Allowed::Each(names) => format!("list of {}", names.join(", ")),
        Allowed::Custom(validator) => Some((validator.summary)())
            .filter(|summary| !summary.is_empty())
            .unwrap_or(config_type),
        Allowed::Any | Allowed::NotEmpty | Allowed::ResourceName => config_type,
    }
}

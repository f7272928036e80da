//! The tables as a page for people.

use std::fmt::Write as _;

use super::{AliasUnit, Allowed, ClientKind, Definition, Importance, Support, security_table::SECURITY_CONFIGS};

/// The text of the page with all keys of a client, such as `docs/consumer-config.md`.
pub fn document(client: ClientKind) -> String {
    let mut page = format!("# The configuration of {client}\n{BEGINNING}");
    page.push_str(KEYS);
    for definition in client
        .definitions()
        .filter(|definition| definition.support == Support::Honoured)
    {
        let allowed = allowed(definition);
        let importance = importance(definition.importance);
        row(
            &mut page,
            &[
                &code(definition.name),
                &default(definition),
                &allowed,
                importance,
                definition.documentation,
            ],
        );
    }
    page.push_str(DEVIATIONS);
    for definition in client.definitions() {
        if let Some(deviation) = definition.deviation {
            let kafkas = deviation
                .kafkas_default
                .map_or_else(|| "none: required".to_owned(), code);
            row(
                &mut page,
                &[&code(definition.name), &default(definition), &kafkas, deviation.reason],
            );
        }
    }
    page.push_str(DEFAULT_ONLY);
    let is_of_security = |definition: &&Definition| SECURITY_CONFIGS.contains(definition);
    for definition in client
        .definitions()
        .filter(|definition| !is_of_security(definition) && !definition.hidden)
    {
        add_default_only(&mut page, definition);
    }
    page.push_str(SECURITY);
    for definition in SECURITY_CONFIGS {
        row(
            &mut page,
            &[&code(definition.name), &default(definition), definition.documentation],
        );
    }
    page.push_str(match client {
        ClientKind::Consumer => ALIASES,
        ClientKind::Producer | ClientKind::Admin => PLAIN_ALIASES,
    });
    for definition in client.definitions() {
        for alias in definition.aliases {
            let conversion = match alias.unit {
                AliasUnit::Same => "the same",
                AliasUnit::Kilobytes => "times 1024",
                AliasUnit::ZeroIsMinusOne => "the same, but 0 is -1",
                AliasUnit::ZeroIsForever => "the same, but 0 is for ever",
            };
            row(&mut page, &[&code(alias.name), &code(definition.name), conversion]);
        }
    }
    page.push_str(LIBRDKAFKA);
    for definition in client.librdkafka_definitions() {
        add_default_only(&mut page, definition);
    }
    page
}

fn add_default_only(page: &mut String, definition: &Definition) {
    if let Support::DefaultOnly { reason, .. } = definition.support {
        row(
            page,
            &[
                &code(definition.name),
                &default(definition),
                definition.documentation,
                reason,
            ],
        );
    }
}

fn row(page: &mut String, cells: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
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
        Allowed::AtLeast(least) => format!("{config_type}, at least {least}"),
        Allowed::Between(..) | Allowed::BetweenOr(..) => format!("{config_type}, {}", definition.allowed),
        Allowed::OneOf(names) => names.join(", "),
        Allowed::OneOfInAnyCase(names) => names.join(", ").to_lowercase(),
        Allowed::Any if config_type == "boolean" => "true, false".to_owned(),
        _ => config_type,
    }
}

const fn importance(importance: Importance) -> &'static str {
    match importance {
        Importance::High => "high",
        Importance::Medium => "medium",
        Importance::Low => "low",
    }
}

const BEGINNING: &str = "
Written from the tables in `crates/milena-client/src/config`; a test keeps it so.

Names, types and defaults are those of Kafka 4.3. They come from code, a map, a `.properties` file or a TOML file, and
later ones win. What cannot be honoured is refused, never ignored: a key that nobody knows, a value that makes no sense,
keys that contradict each other. All that is wrong is reported at once, with where it came from and what to do.
";

const KEYS: &str = "
## Keys

| key | default | allowed | importance | what it is |
|---|---|---|---|---|
";

const DEVIATIONS: &str = "
## Where the default is not Kafka's

| key | here | in Kafka | why |
|---|---|---|---|
";

const DEFAULT_ONLY: &str = "
## Keys of Kafka that take only their default

| key | default | what it is in Kafka | why |
|---|---|---|---|
";

const SECURITY: &str = "
## TLS and SASL

They are not supported yet. These keys are known and refused, unless they have their default.

| key | default | what it is in Kafka |
|---|---|---|
";

const ALIASES: &str = "
## Other names

librdkafka's names, some of which were Kafka's once. `auto.offset.reset` also takes `smallest` and `beginning`, `largest`
and `end`, and `error`.

| name | key | value |
|---|---|---|
";

const PLAIN_ALIASES: &str = "
## Other names

librdkafka's names, some of which were Kafka's once.

| name | key | value |
|---|---|---|
";

const LIBRDKAFKA: &str = "
## Keys of librdkafka that take only their default

| key | default | what it is in librdkafka | why |
|---|---|---|---|
";

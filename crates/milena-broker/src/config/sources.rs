//! Settings from TOML and from arguments.

use super::{ConfigError, RawConfig};

/// Reads TOML: tables and dotted keys make Kafka's names, arrays make lists.
///
/// A name that is the beginning of another, such as `max.connections` and `max.connections.per.ip`, cannot be both a
/// value and a table in TOML; the longer one can be written in quotes.
pub fn parse_toml(text: &str) -> Result<RawConfig, ConfigError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Toml {
        problem: error.to_string(),
    })?;
    let mut settings = RawConfig::new();
    flatten("", &table, &mut settings)?;
    Ok(settings)
}

/// Reads arguments of the form `key=value`.
pub fn parse_arguments<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Result<RawConfig, ConfigError> {
    let mut settings = RawConfig::new();
    for argument in arguments {
        let argument = argument.as_ref();
        match argument.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                insert_once(&mut settings, name.trim().to_owned(), value.to_owned())?;
            }
            _ => {
                let argument = argument.to_owned();
                return Err(ConfigError::NotKeyValue { argument });
            }
        }
    }
    Ok(settings)
}

/// Within one source no setting wins over another of the same name.
pub(super) fn insert_once(settings: &mut RawConfig, name: String, value: String) -> Result<(), ConfigError> {
    if settings.get(&name).is_some_and(|before| *before != value) {
        return Err(ConfigError::GivenTwice { name });
    }
    settings.insert(name, value);
    Ok(())
}

fn flatten(prefix: &str, table: &toml::Table, settings: &mut RawConfig) -> Result<(), ConfigError> {
    for (key, value) in table {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, settings)?,
            toml::Value::Array(elements) => {
                let texts: Option<Vec<String>> = elements.iter().map(scalar).collect();
                let texts = texts.ok_or_else(|| not_scalar(&name, value))?;
                insert_once(settings, name, texts.join(","))?;
            }
            other => {
                let text = scalar(other).ok_or_else(|| not_scalar(&name, value))?;
                insert_once(settings, name, text)?;
            }
        }
    }
    Ok(())
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

fn not_scalar(name: &str, value: &toml::Value) -> ConfigError {
    ConfigError::Wrong {
        name: name.to_owned(),
        value: value.type_str().to_owned(),
        problem: "text, a number, a truth value or a list of those is expected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(pairs: &[(&str, &str)]) -> RawConfig {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn toml_becomes_kafkas_names() {
        let text = r#"
            num.partitions = 3
            listeners = ["PLAINTEXT://:9092", "OUTSIDE://:9093"]
            "max.connections.per.ip" = 7
            [log]
            dirs = "/data"
            retention.hours = 1
            [log.cleaner]
            enable = false
            io.buffer.load.factor = 0.5
        "#;
        let expected = raw(&[
            ("num.partitions", "3"),
            ("listeners", "PLAINTEXT://:9092,OUTSIDE://:9093"),
            ("max.connections.per.ip", "7"),
            ("log.dirs", "/data"),
            ("log.retention.hours", "1"),
            ("log.cleaner.enable", "false"),
            ("log.cleaner.io.buffer.load.factor", "0.5"),
        ]);
        assert_eq!(parse_toml(text), Ok(expected));
    }

    #[test]
    fn toml_that_is_wrong_says_where() {
        for (text, problem) in [
            ("num.partitions = ", "line 1"),
            ("a.b = 1979-05-27", "a.b"),
            ("a = [[1]]", "a is"),
            ("a.b = 1\n'a.b' = 2", "a.b is given twice"),
        ] {
            let error = parse_toml(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn arguments_are_keys_and_values() {
        let expected = raw(&[("a", "b=c"), ("d", "")]);
        assert_eq!(parse_arguments(["a=b=c", "d="]), Ok(expected));
        for wrong in ["a", "=b", ""] {
            let argument = wrong.to_owned();
            assert_eq!(parse_arguments([wrong]), Err(ConfigError::NotKeyValue { argument }));
        }
        assert!(parse_arguments(["a=1", "a=2"]).is_err());
    }
}

//! Keys of single listeners: `listener.name.<listener>.<key>` and `listener.name.<listener>.<mechanism>.<key>`.

use milena_config::{ConfigError as SettingError, ConfigValue, Definition, FromConfigValue, Origin};

use super::{
    super::{BrokerOverrides, ConfigError, Scope},
    Listener,
};

/// The start of all keys of single listeners.
pub(crate) const PREFIX: &str = "listener.name.";

/// A key that was given for one listener, or for one SASL mechanism of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ListenerKey<'a> {
    /// In lower case.
    pub(crate) listener: &'a str,
    /// In lower case.
    pub(crate) mechanism: Option<&'a str>,
    pub(crate) definition: &'static Definition,
}

impl<'a> ListenerKey<'a> {
    /// Reads a name; `None` if it has another form than that of a listener's key.
    pub(crate) fn parse(name: &'a str, origin: &Origin) -> Result<Option<Self>, ConfigError> {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            return Ok(None);
        };
        if rest.len() > NAME_LENGTH_MAX {
            return Err(refused(name, origin, NOT_PER_LISTENER));
        }
        let mut ends = rest.match_indices('.').map(|(at, _)| at);
        let key = ends.find_map(|at| {
            let (listener, key) = (rest.get(..at)?, rest.get(at + 1..)?);
            Self::of_listener(listener, key)
        });
        let key = key.ok_or_else(|| explain(name, rest, origin))?;
        if rest.chars().any(char::is_uppercase) {
            return Err(refused(name, origin, LOWER_CASE));
        }
        Ok(Some(key))
    }

    fn of_listener(listener: &'a str, key: &'a str) -> Option<Self> {
        let schema = Scope::Broker.schema();
        let found = |mechanism, definition| Self {
            listener,
            mechanism,
            definition,
        };
        if let Some(definition) = schema.get(key).filter(|found| is_per_listener(found.name)) {
            return Some(found(None, definition));
        }
        let mechanism = MECHANISMS.iter().find_map(|mechanism| {
            let name = key.get(..mechanism.len())?;
            name.eq_ignore_ascii_case(mechanism).then_some(name)
        })?;
        let key = key.get(mechanism.len()..)?.strip_prefix('.')?;
        let definition = schema.get(key).filter(|found| is_per_mechanism(found.name))?;
        Some(found(Some(mechanism), definition))
    }
}

/// Parses a setting of the broker, also one of a single listener.
pub(super) fn parse_setting(name: &str, text: &str, origin: &Origin) -> Result<ConfigValue, ConfigError> {
    let schema = Scope::Broker.schema();
    let Some(key) = ListenerKey::parse(name, origin)? else {
        return Ok(schema.parse(name, text, origin)?);
    };
    let parsed = schema.parse(key.definition.name, text, origin);
    Ok(parsed.map_err(|error| with_name(error, name))?)
}

/// The definition of a key of the broker, also of one of a single listener.
pub(crate) fn definition_of(name: &str, origin: &Origin) -> Result<&'static Definition, ConfigError> {
    match ListenerKey::parse(name, origin)? {
        Some(key) => Ok(key.definition),
        None => Ok(Scope::Broker.schema().require(name, origin)?),
    }
}

/// Refuses keys of listeners that the broker does not have: with Kafka they have no effect.
pub(super) fn check_listeners(raw: &BrokerOverrides, listeners: &[Listener]) -> Result<(), ConfigError> {
    for (name, origin) in raw.names() {
        let Some(key) = ListenerKey::parse(name, &origin)? else {
            continue;
        };
        if !listeners
            .iter()
            .any(|listener| listener.name.to_lowercase() == key.listener)
        {
            let names: Vec<String> = listeners.iter().map(|listener| listener.name.to_lowercase()).collect();
            return Err(ConfigError::UnknownListener {
                key: name.to_owned(),
                listeners: names.join(", "),
            });
        }
    }
    Ok(())
}

/// The settings as one listener has them: those of a mechanism, else those of the listener, else those of the broker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerValues<'a> {
    raw: &'a BrokerOverrides,
    /// In lower case.
    listener: &'a str,
    mechanism: Option<&'a str>,
}

impl<'a> ListenerValues<'a> {
    /// `listener` is its name in lower case.
    pub(crate) fn new(raw: &'a BrokerOverrides, listener: &'a str) -> Self {
        Self {
            raw,
            listener,
            mechanism: None,
        }
    }

    /// The settings of one mechanism, whose name is in lower case.
    #[must_use]
    pub(crate) fn of_mechanism(self, mechanism: &'a str) -> Self {
        Self {
            mechanism: Some(mechanism),
            ..self
        }
    }

    pub(crate) fn get<T: FromConfigValue>(&self, key: &'static str) -> Result<T, ConfigError> {
        self.find(key)?.ok_or_else(|| super::super::layers::missing(key))
    }

    pub(crate) fn find<T: FromConfigValue>(&self, key: &'static str) -> Result<Option<T>, ConfigError> {
        for name in self.own_names(key) {
            if let Some(text) = self.raw.text(&name) {
                let value = parse_setting(&name, text, &self.raw.origin(&name))?;
                return Ok(T::from_config_value(&value));
            }
        }
        self.raw.find(key)
    }

    /// A value that is set for this listener, or for this mechanism of it, and not for the broker.
    pub(crate) fn find_own<T: FromConfigValue>(&self, key: &'static str) -> Result<Option<T>, ConfigError> {
        let is_own = self.own_names(key).any(|name| self.raw.text(&name).is_some());
        if is_own { self.find(key) } else { Ok(None) }
    }

    /// The name under which a value of the key is set, or could be set for this listener.
    pub(crate) fn name_of(&self, key: &'static str) -> String {
        let set = self.own_names(key).find(|name| self.raw.text(name).is_some());
        let own = || self.own_names(key).next();
        match set {
            Some(name) => name,
            None if self.raw.text(key).is_some() => key.to_owned(),
            None => own().unwrap_or_else(|| key.to_owned()),
        }
    }

    /// The names of a key for this listener alone, the strongest first.
    fn own_names(&self, key: &'static str) -> impl Iterator<Item = String> {
        let listener = self.listener;
        let of_mechanism = self
            .mechanism
            .map(|mechanism| format!("{PREFIX}{listener}.{mechanism}.{key}"));
        of_mechanism.into_iter().chain([format!("{PREFIX}{listener}.{key}")])
    }
}

/// Whether a key can be set for a single listener.
fn is_per_listener(key: &str) -> bool {
    key.starts_with("ssl.") || key.starts_with("sasl.") || PER_LISTENER.contains(&key)
}

/// Whether a key can be set for a single mechanism of a listener.
fn is_per_mechanism(key: &str) -> bool {
    key.starts_with("sasl.oauthbearer.") || PER_MECHANISM.contains(&key)
}

/// Explains why a name with the prefix is no key.
fn explain(name: &str, rest: &str, origin: &Origin) -> ConfigError {
    let key = rest.split_once('.').map_or("", |(_, key)| key);
    let mechanism = |key: &&str| MECHANISMS.contains(&key.split('.').next().unwrap_or_default());
    let bare = Some(key).filter(mechanism).and_then(|key| key.split_once('.'));
    let bare = bare.map_or(key, |(_, key)| key);
    if Scope::Broker.schema().get(bare).is_some() {
        return refused(name, origin, NOT_PER_LISTENER);
    }
    with_name(Scope::Broker.schema().explain(bare, origin), name).into()
}

fn refused(name: &str, origin: &Origin, why: &'static str) -> ConfigError {
    let (key, origin) = (name.to_owned(), origin.clone());
    SettingError::Unsupported { key, origin, why }.into()
}

/// The error about a key, under its full name.
fn with_name(mut error: SettingError, name: &str) -> SettingError {
    if let SettingError::Invalid { key, .. }
    | SettingError::Unsupported { key, .. }
    | SettingError::UnknownKey { key, .. }
    | SettingError::OtherOwner { key, .. } = &mut error
    {
        name.clone_into(key);
    }
    error
}

/// In lower case, as in names of keys. GSSAPI is known only to explain its keys.
const MECHANISMS: &[&str] = &["plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi"];

const PER_LISTENER: &[&str] = &[
    "connections.max.reauth.ms",
    "max.connection.creation.rate",
    "max.connections",
    "milena.oauthbearer.unsecured",
];

const PER_MECHANISM: &[&str] = &[
    "connections.max.reauth.ms",
    "milena.oauthbearer.unsecured",
    "sasl.jaas.config",
    "sasl.server.callback.handler.class",
];

const NOT_PER_LISTENER: &str = "it cannot be set for a single listener; set it for the broker";
const LOWER_CASE: &str = "the names of the listener and of the mechanism are in lower case here, as in Kafka";

/// No key is this long, and names come from strangers.
const NAME_LENGTH_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawConfig;

    fn parse(name: &str) -> Result<(&str, Option<&str>, &'static str), String> {
        let key = ListenerKey::parse(name, &Origin::Request).map_err(|error| error.to_string())?;
        let key = key.expect("the prefix");
        Ok((key.listener, key.mechanism, key.definition.name))
    }

    #[test]
    fn names_have_a_listener_a_mechanism_and_a_key() {
        for (name, expected) in [
            (
                "listener.name.sasl_ssl.ssl.keystore.location",
                ("sasl_ssl", None, "ssl.keystore.location"),
            ),
            (
                "listener.name.out.side.max.connections",
                ("out.side", None, "max.connections"),
            ),
            (
                "listener.name.a.scram-sha-256.sasl.jaas.config",
                ("a", Some("scram-sha-256"), "sasl.jaas.config"),
            ),
            (
                "listener.name.a.plain.connections.max.reauth.ms",
                ("a", Some("plain"), "connections.max.reauth.ms"),
            ),
        ] {
            assert_eq!(parse(name), Ok(expected), "{name}");
        }
        assert_eq!(ListenerKey::parse("listeners", &Origin::Request), Ok(None));
    }

    #[test]
    fn other_names_are_explained() {
        for (name, problem) in [
            ("listener.name.a.num.partitions", "for a single listener"),
            (
                "listener.name.a.ssl.keystore.locatio",
                "did you mean ssl.keystore.location",
            ),
            ("listener.name.A.ssl.keystore.location", "lower case"),
            ("listener.name.a.PLAIN.sasl.jaas.config", "lower case"),
            ("listener.name.", "is not a key of the broker"),
        ] {
            let error = parse(name).unwrap_err();
            assert!(error.contains(problem), "{name}: {error}");
        }
    }

    #[test]
    fn the_most_specific_setting_wins() {
        let key = "connections.max.reauth.ms";
        let mut raw = BrokerOverrides::default();
        let mut expect = |name: &str, of_broker: i64, of_listener: i64, of_mechanism: i64| {
            let value = [of_broker, of_listener, of_mechanism]
                .into_iter()
                .max()
                .unwrap_or_default();
            raw.dynamic = [
                raw.dynamic.clone(),
                RawConfig::from([(name.to_owned(), value.to_string())]),
            ]
            .into_iter()
            .flatten()
            .collect();
            let values = ListenerValues::new(&raw, "a");
            assert_eq!(raw.get::<i64>(key), Ok(of_broker));
            assert_eq!(values.get::<i64>(key), Ok(of_listener));
            assert_eq!(values.of_mechanism("plain").get::<i64>(key), Ok(of_mechanism));
            assert_eq!(ListenerValues::new(&raw, "b").get::<i64>(key), Ok(of_broker));
        };
        expect(key, 1, 1, 1);
        expect("listener.name.a.connections.max.reauth.ms", 1, 2, 2);
        expect("listener.name.a.plain.connections.max.reauth.ms", 1, 2, 3);
    }
}

//! Settings of the relay: a file, overridden by arguments.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use milena_client::config::{ConfigMap, Origin, nearest, parse_time, read_file};
use milena_sql::{Database, relay::Relay};

/// Keys of the file beside those of the table `[kafka]`.
const KEYS: [&str; 9] = [
    "database",
    "name",
    "poll_interval",
    "batch",
    "in_flight",
    "lease",
    "keep_published",
    "clean_interval",
    "listen",
];
/// Value of `keep_published` that turns the clean-up off.
const FOREVER: &str = "forever";

/// Settings that may be given; the relay has a default for each other one.
#[derive(Default)]
pub(super) struct RelaySettings {
    pub(super) database: Option<String>,
    pub(super) name: Option<String>,
    pub(super) poll_interval: Option<Duration>,
    pub(super) batch: Option<u32>,
    pub(super) in_flight: Option<u32>,
    pub(super) lease: Option<Duration>,
    pub(super) keep_published: Option<Keep>,
    pub(super) clean_interval: Option<Duration>,
    pub(super) listen: Option<String>,
    /// Producer configs under Kafka's names.
    pub(super) kafka: ConfigMap,
}

/// Age at which published events are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    For(Duration),
    Forever,
}

impl Keep {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            FOREVER => Ok(Self::Forever),
            time => match parse_time(time) {
                Ok(time) => Ok(Self::For(time)),
                Err(error) => Err(format!("{error}, or {FOREVER}")),
            },
        }
    }
}

impl RelaySettings {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut settings = Self::default();
        for (key, value, origin) in read_file(path)?.settings() {
            match key.strip_prefix("kafka.") {
                Some(key) => {
                    settings.kafka.set_from(key, value, origin.clone());
                }
                None => settings.set(key, value, origin)?,
            }
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str, origin: &Origin) -> Result<()> {
        let invalid = |problem: String| anyhow!("{origin}: {key}: {problem}");
        let time = || parse_time(value).map_err(|error| invalid(error.to_string()));
        let number = || value.parse().map_err(|_| invalid(format!("{value:?} is not a number")));
        match key {
            "database" => self.database = Some(value.to_owned()),
            "name" => self.name = Some(value.to_owned()),
            "listen" => self.listen = Some(value.to_owned()),
            "poll_interval" => self.poll_interval = Some(time()?),
            "lease" => self.lease = Some(time()?),
            "clean_interval" => self.clean_interval = Some(time()?),
            "keep_published" => self.keep_published = Some(Keep::parse(value).map_err(invalid)?),
            "batch" => self.batch = Some(number()?),
            "in_flight" => self.in_flight = Some(number()?),
            _ => {
                let near =
                    nearest(key, KEYS.into_iter()).map_or_else(String::new, |near| format!("; did you mean {near}?"));
                bail!(
                    "{origin}: {key} is not a known key{near} Known keys: {}, and a table [kafka]",
                    KEYS.join(", ")
                );
            }
        }
        Ok(())
    }

    /// Takes the settings of `stronger` that are given.
    pub(super) fn override_by(&mut self, stronger: Self) {
        fn take<T>(value: &mut Option<T>, stronger: Option<T>) {
            if stronger.is_some() {
                *value = stronger;
            }
        }
        take(&mut self.database, stronger.database);
        take(&mut self.name, stronger.name);
        take(&mut self.poll_interval, stronger.poll_interval);
        take(&mut self.batch, stronger.batch);
        take(&mut self.in_flight, stronger.in_flight);
        take(&mut self.lease, stronger.lease);
        take(&mut self.keep_published, stronger.keep_published);
        take(&mut self.clean_interval, stronger.clean_interval);
        take(&mut self.listen, stronger.listen);
        self.kafka.merge(stronger.kafka);
    }

    pub(super) fn relay(self, database: Database) -> Relay {
        let mut relay = Relay::new(database, self.kafka);
        if let Some(name) = self.name {
            relay = relay.name(name);
        }
        if let Some(interval) = self.poll_interval {
            relay = relay.poll_interval(interval);
        }
        if let Some(rows) = self.batch {
            relay = relay.batch(rows);
        }
        if let Some(rows) = self.in_flight {
            relay = relay.in_flight(rows);
        }
        if let Some(lease) = self.lease {
            relay = relay.lease(lease);
        }
        if let Some(interval) = self.clean_interval {
            relay = relay.clean_interval(interval);
        }
        match self.keep_published {
            Some(Keep::For(age)) => relay.keep_published(age),
            Some(Keep::Forever) => relay.keep_published(None),
            None => relay,
        }
    }
}

/// Client configs of the arguments: `-F`, `-b`, `-X`, in rising precedence.
pub(crate) fn kafka_arguments(file: Option<&Path>, bootstrap: Option<&str>, settings: &[String]) -> Result<ConfigMap> {
    let mut map = ConfigMap::new();
    if let Some(file) = file {
        map.merge(read_file(file)?);
    }
    if let Some(servers) = bootstrap {
        map.set_from("bootstrap.servers", servers, Origin::Named("-b".into()));
    }
    crate::secret::check_arguments(settings, "--command-config")?;
    for setting in settings {
        let pair = setting.split_once('=');
        let (key, value) = pair.with_context(|| format!("-X {setting} is not KEY=VALUE"))?;
        map.set_from(key, value, Origin::Named("-X".into()));
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RelaySettings> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("relay.toml");
        std::fs::write(&path, text).unwrap();
        RelaySettings::read(&path)
    }

    #[test]
    fn a_file_has_all_settings() {
        let settings = read(
            "database = \"sqlite://a.db\"\nname = \"r1\"\npoll_interval = \"50ms\"\nbatch = 7\nin_flight = 8\n\
             lease = \"10s\"\nkeep_published = \"forever\"\nclean_interval = \"1m\"\nlisten = \"127.0.0.1:0\"\n\
             [kafka]\nbootstrap.servers = \"kafka:9092\"\n\"linger.ms\" = 5\n",
        );
        let settings = settings.unwrap();
        assert_eq!(settings.database.as_deref(), Some("sqlite://a.db"));
        assert_eq!(settings.name.as_deref(), Some("r1"));
        assert_eq!(settings.poll_interval, Some(Duration::from_millis(50)));
        assert_eq!((settings.batch, settings.in_flight), (Some(7), Some(8)));
        assert_eq!(settings.lease, Some(Duration::from_secs(10)));
        assert_eq!(settings.keep_published, Some(Keep::Forever));
        assert_eq!(settings.clean_interval, Some(Duration::from_secs(60)));
        assert_eq!(settings.listen.as_deref(), Some("127.0.0.1:0"));
        assert_eq!(settings.kafka.get("bootstrap.servers"), Some("kafka:9092"));
        assert_eq!(settings.kafka.get("linger.ms"), Some("5"));
    }

    #[test]
    fn a_wrong_key_or_value_is_named_with_its_line() {
        for (text, expected) in [
            (
                "\nbatsh = 7\n",
                "relay.toml:2: batsh is not a known key; did you mean batch?",
            ),
            ("batch = \"many\"\n", "relay.toml:1: batch: \"many\" is not a number"),
            ("lease = \"15\"\n", "relay.toml:1: lease: "),
            ("keep_published = \"never\"\n", "or forever"),
        ] {
            let error = read(text).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

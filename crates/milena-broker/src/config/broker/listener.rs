//! Listeners: `name://host:port`.

use std::net::IpAddr;

use milena_config::{FromText as _, SecurityProtocol};

use super::{super::ConfigError, config::wrong};

/// An address that the broker listens on, or advertises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// In upper case, as Kafka keeps it.
    pub name: String,
    pub protocol: SecurityProtocol,
    /// Without brackets. Empty for all interfaces; in an advertised listener, for the name of the machine.
    pub host: String,
    /// 0 for a port that the operating system chooses.
    pub port: u16,
}

impl Listener {
    /// Parses the listeners of one key. `protocols` is the text of `listener.security.protocol.map`.
    pub(super) fn parse_all(key: &str, texts: &[String], protocols: &str) -> Result<Vec<Self>, ConfigError> {
        let map = parse_protocol_map(protocols)?;
        let mut listeners: Vec<Self> = Vec::new();
        for text in texts {
            let listener = Self::parse(text, &map).map_err(|problem| wrong(key, text, problem))?;
            if listeners.iter().any(|other| other.name == listener.name) {
                return Err(wrong(key, text, "another listener has the same name"));
            }
            if key == "listeners" && listeners.iter().any(|other| other.shares_port(&listener)) {
                return Err(wrong(key, text, "another listener has the same port"));
            }
            listeners.push(listener);
        }
        Ok(listeners)
    }

    fn parse(text: &str, map: &[(String, SecurityProtocol)]) -> Result<Self, &'static str> {
        let (name, address) = text.split_once("://").ok_or(EXPECTED)?;
        let (host, port) = address.rsplit_once(':').ok_or(EXPECTED)?;
        let name = name.to_uppercase();
        let named = map.iter().find(|(known, _)| *known == name);
        let (_, protocol) = named.ok_or("its name is not in listener.security.protocol.map")?;
        let port = port.parse().map_err(|_| "the port is not a number from 0 to 65535")?;
        // As in Kafka, the brackets of an IPv6 address are optional: the port follows the last colon.
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        Ok(Self {
            name,
            protocol: *protocol,
            host: bare.unwrap_or(host).to_owned(),
            port,
        })
    }

    /// Whether both would need one port. As in Kafka, only an IPv4 and an IPv6 address may share one.
    fn shares_port(&self, other: &Self) -> bool {
        let address = |listener: &Self| listener.host.parse::<IpAddr>().ok();
        let are_of_two_families = match (address(self), address(other)) {
            (Some(one), Some(two)) => one.is_ipv4() != two.is_ipv4(),
            _ => false,
        };
        self.port != 0 && self.port == other.port && !are_of_two_families
    }

    /// Whether the address stands for all interfaces, so that no client can connect to it.
    pub(super) fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "0.0.0.0" | "::")
    }
}

/// Parses `NAME:PROTOCOL,…`.
fn parse_protocol_map(text: &str) -> Result<Vec<(String, SecurityProtocol)>, ConfigError> {
    let parse = |pair: &str| {
        let (name, protocol) = pair.split_once(':')?;
        let protocol = SecurityProtocol::from_text(&protocol.trim().to_uppercase())?;
        Some((name.trim().to_uppercase(), protocol))
    };
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let map = pairs.map(|pair| {
        parse(pair).ok_or_else(|| {
            let protocols = SecurityProtocol::NAMES.join(", ");
            let problem = format!("it must be name:protocol, with one of {protocols} as protocol");
            wrong("listener.security.protocol.map", pair, problem)
        })
    });
    map.collect()
}

const EXPECTED: &str = "it must be name://host:port";

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "PLAINTEXT:PLAINTEXT, outside:SASL_SSL";

    fn parse(text: &str) -> Result<Vec<Listener>, String> {
        let texts: Vec<String> = text.split(',').map(str::to_owned).collect();
        Listener::parse_all("listeners", &texts, MAP).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_of_all_kinds() {
        for (text, host, port) in [
            ("PLAINTEXT://localhost:9092", "localhost", 9092),
            ("plaintext://:0", "", 0),
            ("PLAINTEXT://[::1]:9092", "::1", 9092),
            ("PLAINTEXT://::1:9092", "::1", 9092),
        ] {
            let expected = Listener {
                name: "PLAINTEXT".to_owned(),
                protocol: SecurityProtocol::Plaintext,
                host: host.to_owned(),
                port,
            };
            assert_eq!(parse(text), Ok(vec![expected]), "{text}");
        }
        assert_eq!(parse("OUTSIDE://h:1").unwrap()[0].protocol, SecurityProtocol::SaslSsl);
    }

    #[test]
    fn errors_name_the_problem() {
        for (text, problem) in [
            ("localhost:9092", "name://host:port"),
            ("PLAINTEXT://localhost", "name://host:port"),
            ("PLAINTEXT://localhost:70000", "port"),
            ("INSIDE://:9092", "listener.security.protocol.map"),
            ("PLAINTEXT://:1,plaintext://:2", "same name"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let error = Listener::parse_all("listeners", &[], "A:B").unwrap_err().to_string();
        assert!(error.contains("SASL_PLAINTEXT"), "{error}");
    }
}

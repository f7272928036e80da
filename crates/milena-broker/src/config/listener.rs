//! Listeners: `name://host:port`.

use super::{ConfigError, broker::wrong};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// In capitals, as Kafka keeps it.
    pub name: String,
    pub protocol: SecurityProtocol,
    /// Without brackets. Empty for every interface of the machine, and where it is advertised for the machine's name.
    pub host: String,
    /// 0 lets the operating system choose.
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl Listener {
    /// Reads the listeners of one key. `protocols` is the text of `listener.security.protocol.map`.
    pub(super) fn parse_all(key: &str, texts: &[String], protocols: &str) -> Result<Vec<Self>, ConfigError> {
        let map = parse_protocol_map(protocols)?;
        let mut listeners: Vec<Self> = Vec::new();
        for text in texts {
            let listener = Self::parse(text, &map).map_err(|problem| wrong(key, text, problem))?;
            if listeners.iter().any(|other| other.name == listener.name) {
                return Err(wrong(key, text, "another listener has the same name"));
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
        let (_, protocol) = named.ok_or("listener.security.protocol.map does not have its name")?;
        let port = port.parse().map_err(|_| "the port is not a number from 0 to 65535")?;
        // Kafka does not insist on the brackets of an IPv6 address, because the port always stands last.
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        Ok(Self {
            name,
            protocol: *protocol,
            host: bare.unwrap_or(host).to_owned(),
            port,
        })
    }

    /// Whether no client could use it as an address.
    pub(super) fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "0.0.0.0" | "::")
    }
}

/// Reads `NAME:PROTOCOL,…`.
fn parse_protocol_map(text: &str) -> Result<Vec<(String, SecurityProtocol)>, ConfigError> {
    let mut map = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let problem = "name:protocol is expected, with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL as protocol";
        let parsed = pair
            .split_once(':')
            .and_then(|(name, protocol)| Some((name.trim().to_uppercase(), SecurityProtocol::from_name(protocol)?)));
        map.push(parsed.ok_or_else(|| wrong("listener.security.protocol.map", pair, problem))?);
    }
    Ok(map)
}

impl SecurityProtocol {
    fn from_name(name: &str) -> Option<Self> {
        match name.trim().to_uppercase().as_str() {
            "PLAINTEXT" => Some(Self::Plaintext),
            "SSL" => Some(Self::Ssl),
            "SASL_PLAINTEXT" => Some(Self::SaslPlaintext),
            "SASL_SSL" => Some(Self::SaslSsl),
            _ => None,
        }
    }
}

const EXPECTED: &str = "name://host:port is expected";

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
    fn what_is_wrong_is_said() {
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

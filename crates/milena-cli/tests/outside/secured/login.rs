//! Ways to log in, as configs of Kafka's clients and for the scripts.

use std::{fmt::Write as _, fs, path::PathBuf};

use serde_json::{Value, json};

use super::broker::{ALICE, SecuredBroker};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    SaslPlaintext,
    SaslSsl,
    /// TLS without certificates of clients.
    Ssl,
    /// TLS with certificates of clients.
    Mtls,
}

impl Listener {
    pub const ALL: [Self; 4] = [Self::SaslPlaintext, Self::SaslSsl, Self::Ssl, Self::Mtls];

    pub fn name(self) -> &'static str {
        match self {
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
            Self::Ssl => "SSL",
            Self::Mtls => "MTLS",
        }
    }

    /// `security.protocol` of clients.
    fn protocol(self) -> &'static str {
        match self {
            Self::Mtls => "SSL",
            other => other.name(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Plain,
    Scram256,
    Scram512,
    OAuthBearer,
}

impl Mechanism {
    pub const ALL: [Self; 4] = [Self::Plain, Self::Scram256, Self::Scram512, Self::OAuthBearer];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram256 => "SCRAM-SHA-256",
            Self::Scram512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Login {
    pub listener: Listener,
    pub mechanism: Option<Mechanism>,
    pub user: String,
    pub password: String,
    /// Whether the client has a certificate.
    pub certificate: bool,
}

impl Login {
    /// With the right password.
    pub fn new(listener: Listener, mechanism: Option<Mechanism>, user: &str) -> Self {
        Self {
            listener,
            mechanism,
            user: user.to_owned(),
            password: format!("{user}-secret"),
            certificate: listener == Listener::Mtls,
        }
    }

    /// Every mechanism with and without TLS, TLS alone, and with a certificate.
    pub fn all() -> Vec<Self> {
        let sasl = [Listener::SaslPlaintext, Listener::SaslSsl].into_iter();
        let sasl =
            sasl.flat_map(|listener| Mechanism::ALL.map(|mechanism| Self::new(listener, Some(mechanism), ALICE)));
        let tls = [Listener::Ssl, Listener::Mtls].map(|listener| Self::new(listener, None, ALICE));
        sasl.chain(tls).collect()
    }

    /// As [`Self::all`], each with a wrong password, a forged token or without a certificate.
    pub fn all_wrong() -> Vec<Self> {
        let wrong = Self::all().into_iter().filter(|login| login.listener != Listener::Ssl);
        wrong
            .map(|login| match login.mechanism {
                // The provider signs its tokens with another key.
                Some(Mechanism::OAuthBearer) => Self::new(login.listener, login.mechanism, "mallory"),
                Some(_) => Self {
                    password: "wrong".to_owned(),
                    ..login
                },
                None => Self {
                    certificate: false,
                    ..login
                },
            })
            .collect()
    }

    pub fn name(&self) -> String {
        let mechanism = self.mechanism.map(|mechanism| format!("-{}", mechanism.name()));
        format!("{}{}", self.listener.name(), mechanism.unwrap_or_default()).to_lowercase()
    }

    /// For the scripts.
    pub fn json(&self, broker: &SecuredBroker) -> Value {
        let protocol = self.listener.protocol();
        let file = |name: String, is_used: bool| is_used.then(|| broker.tls(&name));
        json!({
            "name": self.name(),
            "brokers": broker.address(self.listener),
            "protocol": protocol,
            "mechanism": self.mechanism.map(Mechanism::name),
            "user": self.user,
            "password": self.password,
            "token_url": broker.token_url,
            "ca": file("ca.pem".to_owned(), protocol.ends_with("SSL")),
            "certificate": file(format!("{}.crt", self.user), self.certificate),
            "key": file(format!("{}.key", self.user), self.certificate),
        })
    }

    /// Writes a file of configs under Java's names, and returns its path.
    pub fn write_properties(&self, broker: &SecuredBroker) -> PathBuf {
        let folder = broker.dir.path().join(format!("{}-{}", self.user, self.password));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{}.properties", self.name()));
        fs::write(&file, self.properties(broker)).unwrap();
        file
    }

    fn properties(&self, broker: &SecuredBroker) -> String {
        let protocol = self.listener.protocol();
        let mut text = format!(
            "bootstrap.servers={}\nsecurity.protocol={protocol}\n",
            broker.address(self.listener)
        );
        let mut store = |name: &str, file: &str| {
            let file = broker.tls(file);
            writeln!(text, "ssl.{name}.type=PEM\nssl.{name}.location={}", file.display()).unwrap();
        };
        if protocol.ends_with("SSL") {
            store("truststore", "ca.pem");
        }
        if self.certificate {
            store("keystore", &format!("{}.pem", self.user));
        }
        if let Some(mechanism) = self.mechanism {
            text.push_str(&self.sasl(mechanism, &broker.token_url));
        }
        text
    }

    fn sasl(&self, mechanism: Mechanism, token_url: &str) -> String {
        let (user, password, package) = (&self.user, &self.password, "org.apache.kafka.common.security");
        let login = match mechanism {
            Mechanism::OAuthBearer => format!(
                "sasl.jaas.config={package}.oauthbearer.OAuthBearerLoginModule required;\n\
                 sasl.login.callback.handler.class={package}.oauthbearer.OAuthBearerLoginCallbackHandler\n\
                 sasl.oauthbearer.token.endpoint.url={token_url}\n\
                 sasl.oauthbearer.client.credentials.client.id={user}\n\
                 sasl.oauthbearer.client.credentials.client.secret={password}\n"
            ),
            Mechanism::Plain => format!(
                "sasl.jaas.config={package}.plain.PlainLoginModule required username=\"{user}\" \
                 password=\"{password}\";\n"
            ),
            Mechanism::Scram256 | Mechanism::Scram512 => format!(
                "sasl.jaas.config={package}.scram.ScramLoginModule required username=\"{user}\" \
                 password=\"{password}\";\n"
            ),
        };
        format!("sasl.mechanism={}\n{login}", mechanism.name())
    }
}

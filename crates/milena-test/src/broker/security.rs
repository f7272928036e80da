//! Listeners of a test broker with TLS and log-ins.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use milena_machines::sasl::{ITERATIONS_MIN, SaltedPassword, ScramMechanism};
use milena_security::dev_certs::DevCa;
use milena_wire::messages::{
    AlterUserScramCredentialsRequest, alter_user_scram_credentials_request::ScramCredentialUpsertion,
};

use super::{TestBroker, TestBrokerBuilder};

const DAYS: u32 = 30;

/// The settings of the builder.
#[derive(Debug, Clone, Default)]
pub(super) struct SecurityOptions {
    tls: bool,
    requires_certificates: bool,
    /// With their passwords.
    users: BTreeMap<String, String>,
}

/// The secured listeners of one broker.
pub(super) struct Security {
    options: SecurityOptions,
    ca: Option<DevCa>,
    /// The directory of certificates.
    directory: tempfile::TempDir,
}

impl TestBrokerBuilder {
    /// Adds a listener `SSL`, with a certificate for `localhost` and `127.0.0.1` of an authority that is made for this
    /// broker: see [`TestBroker::ca_file`]. With [`users`](Self::user) there is also `SASL_SSL`.
    ///
    /// Secured listeners have no proxy in front of them, and so no faults.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.security.tls = true;
        self
    }

    /// Adds the listener `SSL`, as [`tls`](Self::tls) does, and requires certificates of its clients: see
    /// [`TestBroker::client_certificate`].
    #[must_use]
    pub fn require_client_certificates(mut self) -> Self {
        self.security.requires_certificates = true;
        self.tls()
    }

    /// Adds a user, who can log in with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 on the listener `SASL_PLAINTEXT`.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.security.users.insert(name.to_owned(), password.to_owned());
        self
    }
}

impl TestBroker {
    /// The value for `bootstrap.servers` of clients that use a secured listener: `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`. It
    /// stays the same after a restart.
    pub fn secured_bootstrap_servers(&self, listener: &str) -> String {
        let ports = self.secured_ports();
        let port = ports
            .get(listener)
            .unwrap_or_else(|| panic!("there is no listener {listener}; use tls() and user() of the builder"));
        format!("localhost:{port}")
    }

    /// The PEM file with the authority that clients have to trust, for `ssl.truststore.location` or `ssl.ca.location`.
    pub fn ca_file(&self) -> PathBuf {
        self.security.directory.path().join("ca.pem")
    }

    /// A PEM file with the key and the certificate of a client, for `ssl.keystore.location`. Its principal is
    /// `User:CN=<name>`.
    pub fn client_certificate(&self, name: &str) -> PathBuf {
        let ca = self.security.ca.as_ref().expect("a broker that was built with tls()");
        let client = ca.client(name, DAYS).expect("a certificate");
        let path = self.security.directory.path().join(format!("client-{name}.pem"));
        fs::write(&path, client.pem().expose()).expect("a file for the certificate");
        path
    }

    /// Stores the users of SCRAM, which are part of the broker's data.
    pub(super) fn create_scram_users(&self) {
        for mechanism in ScramMechanism::ALL {
            let upsertions = self.security.options.users.iter().map(|(name, password)| {
                let salt = b"salt of this user";
                let salted = SaltedPassword::derive(mechanism, password.as_bytes(), salt, ITERATIONS_MIN);
                ScramCredentialUpsertion {
                    name: name.as_str().into(),
                    mechanism: mechanism.code(),
                    iterations: i32::try_from(ITERATIONS_MIN).unwrap_or(i32::MAX),
                    salt: Bytes::from_static(salt),
                    salted_password: Bytes::copy_from_slice(salted.as_bytes()),
                    ..Default::default()
                }
            });
            let request = AlterUserScramCredentialsRequest {
                upsertions: upsertions.collect(),
                ..Default::default()
            };
            if request.upsertions.is_empty() {
                return;
            }
            let response = self.call(&request, 0);
            assert!(
                response.results.iter().all(|result| result.error_code == 0),
                "users were not created: {response:?}"
            );
        }
    }
}

impl Security {
    /// Makes certificates, and adds the settings of secured listeners.
    pub(super) fn new(options: SecurityOptions, settings: &mut BTreeMap<String, String>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut security = Self {
            options,
            ca: None,
            directory,
        };
        let mut set = |key: &str, value: String| {
            settings.entry(key.to_owned()).or_insert(value);
        };
        if security.options.tls {
            let ca = DevCa::new(DAYS).expect("a certificate authority");
            let hosts = ["localhost", "127.0.0.1"].map(str::to_owned);
            let server = ca.server(&hosts, DAYS).expect("a certificate");
            let path = security.directory.path();
            let ca_file = written(path, "ca.pem", ca.certificate_pem());
            let keystore = written(path, "server.pem", server.pem().expose());
            set("ssl.keystore.location", keystore);
            if security.options.requires_certificates {
                set("listener.name.ssl.ssl.client.auth", "required".to_owned());
                set("ssl.truststore.location", ca_file);
            }
            security.ca = Some(ca);
        }
        if !security.options.users.is_empty() {
            set(
                "sasl.enabled.mechanisms",
                "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
            );
            for listener in security.listeners().filter(|name| name.starts_with("SASL")) {
                let key = format!("listener.name.{}.plain.sasl.jaas.config", listener.to_lowercase());
                set(&key, security.users_of_plain());
            }
        }
        security
    }

    /// The names of the secured listeners.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &'static str> {
        let (tls, sasl) = (self.options.tls, !self.options.users.is_empty());
        let names = [("SSL", tls), ("SASL_PLAINTEXT", sasl), ("SASL_SSL", tls && sasl)];
        names
            .into_iter()
            .filter_map(|(name, is_wanted)| is_wanted.then_some(name))
    }

    fn users_of_plain(&self) -> String {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let users = self.options.users.iter();
        let users = users.map(|(name, password)| format!(" user_{name}=\"{}\"", escape(password)));
        let users: String = users.collect();
        format!("org.apache.kafka.common.security.plain.PlainLoginModule required{users};")
    }
}

/// The value of `listeners`: the one behind the proxy, and the secured ones on their ports; 0 lets the system choose.
pub(super) fn listeners(security: &Security, ports: &BTreeMap<&'static str, u16>) -> String {
    let mut listeners = String::from("PLAINTEXT://127.0.0.1:0");
    for name in security.listeners() {
        let port = ports.get(name).copied().unwrap_or(0);
        listeners.push_str(&format!(",{name}://127.0.0.1:{port}"));
    }
    listeners
}

/// The ports that secured listeners have.
pub(super) fn ports(security: &Security, address: impl Fn(&str) -> Option<SocketAddr>) -> BTreeMap<&'static str, u16> {
    let ports = security.listeners();
    ports.filter_map(|name| Some((name, address(name)?.port()))).collect()
}

fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).expect("a file for the certificate");
    path.display().to_string()
}

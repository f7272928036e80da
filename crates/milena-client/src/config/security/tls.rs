//! The keys `ssl.*`.

use std::sync::Arc;

use milena_config::{Resolver, Setting};
use milena_security::{
    Secret,
    jaas::JaasEntry,
    tls::{ClientTls, Source, TlsError, TlsOptions},
};

use super::push_unusable;

/// Keys that ask for TLS.
pub(super) const CREDENTIALS: &[&str] = &[
    "ssl.keystore.location",
    "ssl.keystore.key",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.certificate.location",
    "ssl.key.location",
];
/// librdkafka's word for the certificates of the operating system.
const PROBE: &str = "probe";

/// TLS of a client. Clones share the certificates, their reloads and the sessions.
#[derive(Debug, Clone)]
pub(crate) struct TlsConfig {
    pub(crate) options: TlsOptions,
    pub(crate) client: Arc<ClientTls>,
}

impl PartialEq for TlsConfig {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

/// Reads the keys and the files that they name.
pub(super) fn read(resolver: &mut Resolver) -> Option<TlsConfig> {
    check_pairs(resolver);
    let options = TlsOptions {
        keystore: file(resolver, "ssl.keystore.location"),
        keystore_password: secret(resolver, "ssl.keystore.password"),
        key_password: secret(resolver, "ssl.key.password"),
        key: text(resolver, "ssl.keystore.key").or_else(|| file(resolver, "ssl.key.location")),
        certificate_chain: text(resolver, "ssl.keystore.certificate.chain")
            .or_else(|| file(resolver, "ssl.certificate.location")),
        truststore: file(resolver, "ssl.truststore.location").filter(|source| *source != Source::file(PROBE)),
        truststore_certificates: text(resolver, "ssl.truststore.certificates"),
        truststore_password: secret(resolver, "ssl.truststore.password"),
        crl: file(resolver, "ssl.crl.location"),
        protocols: protocols(resolver),
        cipher_suites: cipher_suites(resolver),
        verify_host: resolver
            .text("ssl.endpoint.identification.algorithm")
            .is_some_and(|algorithm| algorithm.eq_ignore_ascii_case("https")),
        verify_certificate: resolver.read("enable.ssl.certificate.verification"),
        ..TlsOptions::default()
    };
    load(resolver, "security.protocol", options)
}

/// TLS for the token endpoint: librdkafka's `https.ca.*`, the options `ssl.*` of `sasl.jaas.config`, or the certificates of
/// the operating system.
pub(super) fn read_https(resolver: &mut Resolver, entry: Option<&JaasEntry>) -> Option<Arc<ClientTls>> {
    let of_entry = |name: &str| entry?.option(name).filter(|value| !value.is_empty()).cloned();
    let file_of_entry = |name: &str| of_entry(name).map(|path| Source::file(path.expose()));
    let text_of_entry = |name: &str| of_entry(name).map(Source::Text);
    let truststore = file(resolver, "https.ca.location").filter(|source| *source != Source::file(PROBE));
    let options = TlsOptions {
        truststore: truststore.or_else(|| file_of_entry("ssl.truststore.location")),
        truststore_certificates: text(resolver, "https.ca.pem")
            .or_else(|| text_of_entry("ssl.truststore.certificates")),
        truststore_password: of_entry("ssl.truststore.password"),
        keystore: file_of_entry("ssl.keystore.location"),
        keystore_password: of_entry("ssl.keystore.password"),
        key_password: of_entry("ssl.key.password"),
        key: text_of_entry("ssl.keystore.key"),
        certificate_chain: text_of_entry("ssl.keystore.certificate.chain"),
        ..TlsOptions::default()
    };
    let tls = load(resolver, "sasl.oauthbearer.token.endpoint.url", options);
    tls.map(|tls| tls.client)
}

/// Loads the certificates. `key` is named in an error that belongs to no other key.
fn load(resolver: &mut Resolver, key: &str, options: TlsOptions) -> Option<TlsConfig> {
    match ClientTls::new(&options) {
        Ok(client) => Some(TlsConfig {
            options,
            client: Arc::new(client),
        }),
        Err(error) => {
            let key = blamed(resolver, &error).unwrap_or(key);
            push_unusable(resolver, key, error.to_string());
            None
        }
    }
}

/// The key whose file or value an error is about.
fn blamed(resolver: &Resolver, error: &TlsError) -> Option<&'static str> {
    let TlsError::Material { role, origin, .. } = error else {
        return None;
    };
    let keys = CREDENTIALS.iter().chain(&["ssl.crl.location", "https.ca.location"]);
    let mut files = keys.filter(|key| resolver.text(key).as_deref() == Some(origin.as_str()));
    let texts: &[&str] = match *role {
        "certificate chain" => &["ssl.keystore.certificate.chain"],
        "private key" => &["ssl.keystore.key"],
        "trust store" => &["ssl.truststore.certificates", "https.ca.pem"],
        _ => &[],
    };
    let mut texts = texts.iter().filter(|key| resolver.given(key).is_some());
    files.next().or_else(|| texts.next()).copied()
}

/// A key and its certificates belong together.
fn check_pairs(resolver: &mut Resolver) {
    let is_given = |resolver: &Resolver, key: &str| resolver.given(key).cloned();
    for (one, other) in [
        ("ssl.keystore.location", "ssl.keystore.key"),
        ("ssl.keystore.location", "ssl.certificate.location"),
        ("ssl.truststore.location", "ssl.truststore.certificates"),
        ("ssl.keystore.key", "ssl.key.location"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.location"),
    ] {
        if let (Some(one), Some(other)) = (is_given(resolver, one), is_given(resolver, other)) {
            resolver.contradict(one, other, "both give the same thing; remove one of them");
        }
    }
    let keys: Vec<Setting> = ["ssl.keystore.key", "ssl.key.location"]
        .iter()
        .filter_map(|key| is_given(resolver, key))
        .collect();
    let chains: Vec<Setting> = ["ssl.keystore.certificate.chain", "ssl.certificate.location"]
        .iter()
        .filter_map(|key| is_given(resolver, key))
        .collect();
    match (keys.first(), chains.first()) {
        (Some(key), None) => {
            let chain = Setting::unset("ssl.keystore.certificate.chain");
            let rule =
                "a private key needs its certificate; set ssl.keystore.certificate.chain or ssl.certificate.location";
            resolver.contradict(key.clone(), chain, rule);
        }
        (None, Some(chain)) => {
            let key = Setting::unset("ssl.keystore.key");
            let rule = "a certificate needs its private key; set ssl.keystore.key or ssl.key.location";
            resolver.contradict(chain.clone(), key, rule);
        }
        _ => {}
    }
}

/// `ssl.enabled.protocols`, without those newer than `ssl.protocol`.
fn protocols(resolver: &Resolver) -> Vec<String> {
    let mut enabled: Vec<String> = resolver.read("ssl.enabled.protocols");
    if resolver.text("ssl.protocol").as_deref() == Some("TLSv1.2") {
        enabled.retain(|protocol| protocol != "TLSv1.3");
    }
    enabled
}

/// Java separates the names with commas, OpenSSL with colons.
fn cipher_suites(resolver: &Resolver) -> Vec<String> {
    let names: Vec<String> = resolver.read("ssl.cipher.suites");
    let names = names.iter().flat_map(|names| names.split(':'));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn file(resolver: &Resolver, key: &str) -> Option<Source> {
    resolver.text(key).map(Source::file)
}

fn text(resolver: &Resolver, key: &str) -> Option<Source> {
    resolver.text(key).map(Source::text)
}

pub(super) fn secret(resolver: &Resolver, key: &str) -> Option<Secret> {
    resolver.text(key).map(Secret::from)
}

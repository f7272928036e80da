//! TLS and SASL of a client: from the keys to certificates and credentials.
//!
//! `table.rs` and `librdkafka_table.rs` define the keys; `tls.rs`, `sasl.rs` and `oauth.rs` read them. Files are read here,
//! so that a wrong path or password is an error of the configuration and names its key.

mod librdkafka_table;
mod oauth;
mod sasl;
mod table;
mod tls;

use std::sync::Arc;

use milena_config::{
    Allowed, ConfigError, ConfigMap, ConfigValue, FromText as _, Note, Origin, Resolver, SecurityProtocol, Source,
    Validator,
};

pub(super) use librdkafka_table::LIBRDKAFKA_SECURITY_CONFIGS;
pub(crate) use oauth::OAuthConfig;
pub(crate) use sasl::SaslConfig;
pub(super) use table::SECURITY_CONFIGS;
pub(crate) use tls::TlsConfig;

use crate::auth::TokenProvider;

/// The keys `security.protocol`, `ssl.*` and `sasl.*`, checked. No text of it shows a secret.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SecurityConfig {
    /// `security.protocol`
    pub protocol: SecurityProtocol,
    /// Present with `SSL` and `SASL_SSL`.
    pub(crate) tls: Option<TlsConfig>,
    /// Present with `SASL_PLAINTEXT` and `SASL_SSL`.
    pub(crate) sasl: Option<SaslConfig>,
}

/// Plain text without authentication.
impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            protocol: SecurityProtocol::Plaintext,
            tls: None,
            sasl: None,
        }
    }
}

impl SecurityConfig {
    /// Reads all keys of security. Errors and notes go to the resolver.
    pub(super) fn read(resolver: &mut Resolver, map: &ConfigMap) -> Self {
        if resolver.is_broken("security.protocol") {
            return Self::default();
        }
        let name: String = resolver.read("security.protocol");
        let protocol = SecurityProtocol::from_text(&name.to_uppercase()).unwrap_or(SecurityProtocol::Plaintext);
        let has_tls = matches!(protocol, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl);
        let has_sasl = matches!(protocol, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl);
        let provider = map.object::<ProviderObject>(PROVIDER_OBJECT);
        if !has_tls {
            note_unused(resolver, tls::CREDENTIALS, NO_TLS);
        }
        if !has_sasl {
            note_unused(resolver, sasl::CREDENTIALS, NO_SASL);
        }
        Self {
            protocol,
            tls: has_tls.then(|| tls::read(resolver)).flatten(),
            sasl: has_sasl
                .then(|| sasl::read(resolver, provider.map(|provider| Arc::clone(&provider.0))))
                .flatten(),
        }
    }

    /// Reads the certificates again, for example after a signal. Connections from now on use them.
    ///
    /// Clients check the files every ten seconds by themselves. Returns whether anything changed; the present
    /// certificates stay if a file cannot be used.
    pub fn reload(&self) -> Result<bool, ReloadError> {
        let Some(tls) = &self.tls else { return Ok(false) };
        tls.client.reload().map_err(|error| ReloadError {
            problem: error.to_string(),
        })
    }
}

/// The reason why certificates were not reloaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
#[non_exhaustive]
pub struct ReloadError {
    pub problem: String,
}

/// The object of a map that has the provider of tokens.
const PROVIDER_OBJECT: &str = "milena.token.provider";

struct ProviderObject(Arc<dyn TokenProvider>);

/// Gives tokens for `sasl.mechanism=OAUTHBEARER` from code, to all clients that are configured with this map.
pub fn set_token_provider(map: &mut ConfigMap, provider: Arc<dyn TokenProvider>) {
    map.set_object(PROVIDER_OBJECT, Arc::new(ProviderObject(provider)));
}

const NO_TLS: &str = "security.protocol is without TLS; set it to SSL or SASL_SSL";
const NO_SASL: &str = "security.protocol is without SASL; set it to SASL_SSL or SASL_PLAINTEXT";

/// Credentials that are not used hint at a forgotten `security.protocol`.
fn note_unused(resolver: &mut Resolver, keys: &[&str], why: &'static str) {
    for key in keys {
        let Some(Source::Given(origin)) = resolver.given(key).map(|setting| setting.source.clone()) else {
            continue;
        };
        let key = (*key).to_owned();
        resolver.push_note(Note::NoEffect { key, origin, why });
    }
}

/// Reports that a key cannot be used. Without the key, its default is to blame.
fn push_unusable(resolver: &mut Resolver, key: &str, problem: impl Into<String>) {
    let origin = match resolver.setting(key).map(|setting| setting.source.clone()) {
        Some(Source::Given(origin)) => origin,
        _ => Origin::Named("default".into()),
    };
    resolver.push_error(ConfigError::Unusable {
        key: key.to_owned(),
        origin,
        problem: problem.into(),
    });
}

macro_rules! share {
    ($least:literal, $most:literal) => {
        Allowed::Custom(&Validator {
            accepts: |value| matches!(value, ConfigValue::Double(share) if ($least..=$most).contains(share)),
            expected: || format!("a number from {} to {}", $least, $most),
            summary: || format!("double, from {} to {}", $least, $most),
        })
    };
}

const WINDOW_FACTOR: Allowed = share!(0.5, 1.0);
const WINDOW_JITTER: Allowed = share!(0.0, 0.25);

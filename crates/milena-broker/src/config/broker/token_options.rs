//! The verification of OAUTHBEARER tokens on a listener, as its settings describe it. No file has been read.

use std::path::PathBuf;

use milena_http::Url;
use milena_security::{
    Secret,
    jaas::JaasEntry,
    tls::{Source, TlsOptions},
};

use super::{super::ConfigError, ListenerValues};

/// The way in which tokens are verified.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenOptions {
    /// By the keys of their issuer.
    Jwks(Box<JwksOptions>),
    /// Not at all: for tests.
    Unsecured(UnsecuredRules),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JwksOptions {
    pub(crate) source: JwksSource,
    pub(crate) refresh_ms: u64,
    pub(crate) backoff_ms: u64,
    /// The time for all attempts of one refresh.
    pub(crate) backoff_ms_max: u64,
    pub(crate) rules: TokenRules,
    /// For a source with https.
    pub(crate) tls: TlsOptions,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JwksSource {
    File(PathBuf),
    Url(Url),
}

/// Rules for the claims of signed tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenRules {
    pub(crate) audience: Vec<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) skew_ms: i64,
    pub(crate) scope_claim: String,
    pub(crate) sub_claim: String,
}

/// Rules for the claims of unsecured tokens, from the options of the log-in module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnsecuredRules {
    pub(crate) principal_claim: String,
    pub(crate) scope_claim: String,
    pub(crate) required_scope: Vec<String>,
    pub(crate) skew_ms: i64,
}

/// Reads the settings of a listener; `refuse` makes an error of a problem.
pub(super) fn token_options(
    values: &ListenerValues<'_>,
    jaas: Option<&JaasEntry>,
    refuse: &dyn Fn(String) -> ConfigError,
) -> Result<TokenOptions, ConfigError> {
    let url: Option<String> = values.find(URL)?;
    let unsecured: bool = values.get(UNSECURED)?;
    match (url, unsecured) {
        (Some(_), true) => Err(refuse(format!(
            "{} and {} contradict each other: remove one of them",
            values.name_of(URL),
            values.name_of(UNSECURED)
        ))),
        (None, true) => unsecured_rules(jaas, refuse).map(TokenOptions::Unsecured),
        (Some(url), false) => {
            let options = jwks_options(values, &url, jaas, refuse)?;
            Ok(TokenOptions::Jwks(Box::new(options)))
        }
        (None, false) => Err(refuse(format!(
            "OAUTHBEARER is enabled but tokens cannot be verified: set {} to the keys of their issuer (https: or file:); \
             only for tests, {UNSECURED}=true accepts tokens without a signature",
            values.name_of(URL)
        ))),
    }
}

fn jwks_options(
    values: &ListenerValues<'_>,
    url: &str,
    jaas: Option<&JaasEntry>,
    refuse: &dyn Fn(String) -> ConfigError,
) -> Result<JwksOptions, ConfigError> {
    let source = jwks_source(url).ok_or_else(|| {
        let key = values.name_of(URL);
        refuse(format!(
            "{key} is {url:?}; it must be a URL with https:, http: or file:"
        ))
    })?;
    let ms = |key: &'static str| Ok::<_, ConfigError>(u64::try_from(values.get::<i64>(key)?).unwrap_or(0));
    let skew_s: i32 = values.get("sasl.oauthbearer.clock.skew.seconds")?;
    Ok(JwksOptions {
        source,
        refresh_ms: ms("sasl.oauthbearer.jwks.endpoint.refresh.ms")?,
        backoff_ms: ms("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")?,
        backoff_ms_max: ms("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")?,
        rules: TokenRules {
            audience: values.get("sasl.oauthbearer.expected.audience")?,
            issuer: values.find("sasl.oauthbearer.expected.issuer")?,
            skew_ms: i64::from(skew_s) * 1000,
            scope_claim: values.get("sasl.oauthbearer.scope.claim.name")?,
            sub_claim: values.get("sasl.oauthbearer.sub.claim.name")?,
        },
        tls: tls_options(jaas, refuse)?,
    })
}

fn jwks_source(url: &str) -> Option<JwksSource> {
    let Some(rest) = url.strip_prefix("file:") else {
        return Url::parse(url).ok().map(JwksSource::Url);
    };
    // `file:/path`, `file:///path` and `file://localhost/path` mean the same.
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    path.starts_with('/').then(|| JwksSource::File(path.into()))
}

/// The `ssl.*` options of the log-in module, as in Kafka: those of the listener are for its clients.
fn tls_options(jaas: Option<&JaasEntry>, refuse: &dyn Fn(String) -> ConfigError) -> Result<TlsOptions, ConfigError> {
    let mut tls = TlsOptions::default();
    let options = jaas.into_iter().flat_map(|entry| &entry.options);
    for (name, value) in options.filter(|(name, _)| name.starts_with("ssl.")) {
        let (text, secret) = (value.expose().to_owned(), Some(value.clone()));
        match name.as_str() {
            "ssl.truststore.location" => tls.truststore = Some(Source::file(text)),
            "ssl.truststore.password" => tls.truststore_password = secret,
            "ssl.truststore.certificates" => tls.truststore_certificates = Some(Source::text(text)),
            "ssl.keystore.location" => tls.keystore = Some(Source::file(text)),
            "ssl.keystore.password" => tls.keystore_password = secret,
            "ssl.keystore.key" => tls.key = Some(Source::text(text)),
            "ssl.keystore.certificate.chain" => tls.certificate_chain = Some(Source::text(text)),
            "ssl.key.password" => tls.key_password = secret,
            // Key stores are recognised by their content.
            "ssl.truststore.type" | "ssl.keystore.type" => {}
            _ => {
                return Err(refuse(format!(
                    "the option {name} of the OAUTHBEARER log-in module is not supported"
                )));
            }
        }
    }
    Ok(tls)
}

fn unsecured_rules(
    jaas: Option<&JaasEntry>,
    refuse: &dyn Fn(String) -> ConfigError,
) -> Result<UnsecuredRules, ConfigError> {
    let option = |name: &str| {
        let value = jaas.and_then(|entry| entry.option(name)).map(Secret::expose);
        value
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .map(ToOwned::to_owned)
    };
    let skew = option("unsecuredValidatorAllowableClockSkewMs");
    let skew_ms = match &skew {
        None => 0,
        Some(text) => text.parse().ok().filter(|ms: &i64| *ms >= 0).ok_or_else(|| {
            refuse(format!(
                "unsecuredValidatorAllowableClockSkewMs is {text:?}; it must be a number of milliseconds"
            ))
        })?,
    };
    let required = option("unsecuredValidatorRequiredScope").unwrap_or_default();
    Ok(UnsecuredRules {
        principal_claim: option("unsecuredValidatorPrincipalClaimName").unwrap_or_else(|| "sub".to_owned()),
        scope_claim: option("unsecuredValidatorScopeClaimName").unwrap_or_else(|| "scope".to_owned()),
        required_scope: required.split_whitespace().map(ToOwned::to_owned).collect(),
        skew_ms,
    })
}

const URL: &str = "sasl.oauthbearer.jwks.endpoint.url";
const UNSECURED: &str = "milena.oauthbearer.unsecured";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_files_or_services() {
        for url in ["file:/keys.json", "file:///keys.json", "file://localhost/keys.json"] {
            assert_eq!(jwks_source(url), Some(JwksSource::File("/keys.json".into())), "{url}");
        }
        assert!(matches!(
            jwks_source("https://issuer.example/keys?x=y"),
            Some(JwksSource::Url(_))
        ));
        for url in [
            "",
            "keys.json",
            "file:keys.json",
            "file://host/keys.json",
            "ftp://issuer/keys",
        ] {
            assert_eq!(jwks_source(url), None, "{url}");
        }
    }
}

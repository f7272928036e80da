//! The keys `sasl.oauthbearer.*`: where tokens come from.

use std::{collections::BTreeMap, env, path::PathBuf, sync::Arc, time::Duration};

use milena_config::Resolver;
use milena_http::{Scheme, Url};
use milena_machines::token_refresh::RefreshSettings;
use milena_security::{Secret, jaas::JaasEntry, jwt::Algorithm};
use serde_json::{Map, Number, Value};

use super::{
    push_unusable,
    table::{BEARER_RETRIEVER, FILE_RETRIEVER},
    tls::{read_https, secret},
};
use crate::auth::{
    Assertion, AssertionClaims, AwsMskIam, ClientAuthentication, EndpointRetries, Grant, JwtClaimNames, JwtFile,
    KeySource, TokenEndpoint, TokenProvider, UnsecuredLogin,
};

const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const JAAS: &str = "sasl.jaas.config";
const TIMEOUT_DEFAULT_MS: i64 = 10_000;
const LIFETIME_DEFAULT_SECONDS: i64 = 3_600;
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Options of JAAS for tokens without a signature.
const UNSECURED: &str = "unsecuredLogin";
const EXTENSION: &str = "extension_";

/// Tokens of a client, and when they are replaced.
#[derive(Debug, Clone)]
pub(crate) struct OAuthConfig {
    pub(crate) provider: Arc<dyn TokenProvider>,
    pub(crate) refresh: RefreshSettings,
}

impl PartialEq for OAuthConfig {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.provider, &other.provider) && self.refresh == other.refresh
    }
}

pub(super) fn read(
    resolver: &mut Resolver,
    entry: Option<&JaasEntry>,
    provider: Option<Arc<dyn TokenProvider>>,
) -> Option<OAuthConfig> {
    let provider = match provider {
        Some(provider) => provider,
        None if entry.is_some_and(|entry| entry.class_name() == "IAMLoginModule") => return read_aws(resolver, entry),
        None => read_provider(resolver, entry)?,
    };
    Some(with_refresh(resolver, provider))
}

/// Tokens of Amazon MSK with the credentials of the environment.
pub(super) fn read_aws(resolver: &mut Resolver, entry: Option<&JaasEntry>) -> Option<OAuthConfig> {
    let of_entry = entry.and_then(|entry| entry.option("awsStsRegion"));
    let region = of_entry.map(|region| region.expose().to_owned());
    let region = region
        .or_else(|| env::var("AWS_REGION").ok())
        .or_else(|| env::var("AWS_DEFAULT_REGION").ok())
        .or_else(|| region_of_host(resolver))
        .filter(|region| !region.is_empty());
    let Some(region) = region else {
        let problem = "the region of Amazon MSK is unknown; set the environment variable AWS_REGION";
        push_unusable(resolver, "sasl.mechanism", problem);
        return None;
    };
    let provider = Arc::new(AwsMskIam::from_environment(region));
    Some(with_refresh(resolver, provider))
}

/// The region in a host name of Amazon, as in `b-1.demo.a1.c2.kafka.eu-west-1.amazonaws.com`.
fn region_of_host(resolver: &Resolver) -> Option<String> {
    let servers: Vec<String> = resolver.read("bootstrap.servers");
    servers.iter().find_map(|server| {
        let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host);
        let (before, _) = host.split_once(".amazonaws.com")?;
        let region = before.rsplit('.').next()?;
        region.contains('-').then(|| region.to_owned())
    })
}

fn with_refresh(resolver: &Resolver, provider: Arc<dyn TokenProvider>) -> OAuthConfig {
    let seconds = |key: &str| i64::from(resolver.read::<i16>(key)) * 1_000;
    OAuthConfig {
        provider,
        refresh: RefreshSettings {
            window_factor: resolver.read("sasl.login.refresh.window.factor"),
            window_jitter: resolver.read("sasl.login.refresh.window.jitter"),
            min_period_ms: seconds("sasl.login.refresh.min.period.seconds"),
            buffer_ms: seconds("sasl.login.refresh.buffer.seconds"),
        },
    }
}

fn read_provider(resolver: &mut Resolver, entry: Option<&JaasEntry>) -> Option<Arc<dyn TokenProvider>> {
    if let Some(url) = resolver.text(URL) {
        return read_endpoint(resolver, entry, &url);
    }
    let is_unsecured = entry.is_some_and(|entry| entry.options.keys().any(|name| name.starts_with(UNSECURED)));
    if resolver.read::<String>("sasl.oauthbearer.method") == "oidc" {
        push_unusable(resolver, "sasl.oauthbearer.method", format!("oidc needs {URL}"));
        return None;
    }
    let login = match entry {
        Some(entry) if is_unsecured => unsecured_of_jaas(entry),
        _ if resolver.read("enable.sasl.oauthbearer.unsecure.jwt") => {
            unsecured_of_text(&resolver.text("sasl.oauthbearer.config").unwrap_or_default())
        }
        _ => {
            let problem = format!("OAUTHBEARER has no source of tokens; set {URL}, or give a TokenProvider in code");
            push_unusable(resolver, "sasl.mechanism", problem);
            return None;
        }
    };
    match login {
        Ok(login) => Some(Arc::new(login)),
        Err(problem) => {
            let key = if is_unsecured { JAAS } else { "sasl.oauthbearer.config" };
            push_unusable(resolver, key, problem);
            None
        }
    }
}

fn read_endpoint(resolver: &mut Resolver, entry: Option<&JaasEntry>, url: &str) -> Option<Arc<dyn TokenProvider>> {
    let claims = JwtClaimNames {
        scope: resolver.read("sasl.oauthbearer.scope.claim.name"),
        subject: resolver.read("sasl.oauthbearer.sub.claim.name"),
    };
    let retriever: String = resolver.read("sasl.oauthbearer.jwt.retriever.class");
    if let Some(path) = file_of(url) {
        return Some(Arc::new(JwtFile { path, claims }));
    }
    if retriever == FILE_RETRIEVER {
        push_unusable(resolver, URL, format!("{FILE_RETRIEVER} needs a file: URL"));
        return None;
    }
    let url = match Url::parse(url) {
        Ok(url) => url,
        Err(error) => {
            push_unusable(resolver, URL, error.to_string());
            return None;
        }
    };
    let extensions = read_extensions(resolver, entry)?;
    let grant = read_grant(resolver, entry, retriever == BEARER_RETRIEVER)?;
    let tls = match url.scheme() {
        Scheme::Https => Some(read_https(resolver, entry)?),
        Scheme::Http => None,
    };
    let timeout = |key: &str| millis(resolver.read_optional::<i32>(key).map_or(TIMEOUT_DEFAULT_MS, i64::from));
    let scope = option(entry, "scope").map(|scope| scope.expose().to_owned());
    Some(Arc::new(TokenEndpoint {
        url,
        grant,
        scope: resolver.text("sasl.oauthbearer.scope").or(scope),
        claims,
        extensions,
        tls,
        connect_timeout: timeout("sasl.login.connect.timeout.ms"),
        read_timeout: timeout("sasl.login.read.timeout.ms"),
        retries: EndpointRetries {
            backoff_ms: resolver.read("sasl.login.retry.backoff.ms"),
            within_ms: resolver.read("sasl.login.retry.backoff.max.ms"),
        },
    }))
}

/// The path of a `file:` URL, with or without the slashes of an empty host.
fn file_of(url: &str) -> Option<PathBuf> {
    let (scheme, path) = url.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = path
        .strip_prefix("//")
        .map_or(path, |rest| rest.strip_prefix("localhost").unwrap_or(rest));
    Some(PathBuf::from(path))
}

fn read_grant(resolver: &mut Resolver, entry: Option<&JaasEntry>, is_bearer_class: bool) -> Option<Grant> {
    let assertion = read_assertion(resolver)?;
    let is_bearer = is_bearer_class || resolver.read::<String>("sasl.oauthbearer.grant.type") == JWT_BEARER;
    let id = resolver
        .text("sasl.oauthbearer.client.credentials.client.id")
        .or_else(|| option(entry, "clientId").map(|id| id.expose().to_owned()));
    if is_bearer {
        let Some(assertion) = assertion else {
            let problem = "the grant needs an assertion; set sasl.oauthbearer.assertion.file, or \
                sasl.oauthbearer.assertion.private.key.file and the claims";
            push_unusable(resolver, URL, problem);
            return None;
        };
        return Some(Grant::JwtBearer(assertion));
    }
    if let Some(assertion) = assertion {
        let client_id = id;
        return Some(Grant::ClientCredentials(ClientAuthentication::Assertion {
            client_id,
            assertion,
        }));
    }
    let secret = secret(resolver, "sasl.oauthbearer.client.credentials.client.secret")
        .or_else(|| option(entry, "clientSecret").cloned());
    match (id, secret) {
        (Some(id), Some(secret)) => Some(Grant::ClientCredentials(ClientAuthentication::Secret {
            id,
            secret,
            is_encoded: resolver.read("sasl.oauthbearer.header.urlencode"),
        })),
        _ => {
            let problem = "the token endpoint needs the client's id and secret; set \
                sasl.oauthbearer.client.credentials.client.id and sasl.oauthbearer.client.credentials.client.secret, or an \
                assertion";
            push_unusable(resolver, URL, problem);
            None
        }
    }
}

/// The assertion, if one is configured. `None` after an error.
#[expect(clippy::option_option, reason = "an absent assertion is not an error")]
fn read_assertion(resolver: &mut Resolver) -> Option<Option<Assertion>> {
    let name = |suffix: &str| format!("sasl.oauthbearer.assertion.{suffix}");
    if let Some(file) = resolver.text(&name("file")) {
        return Some(Some(Assertion::File(file.into())));
    }
    let file = resolver
        .text(&name("private.key.file"))
        .map(|path| KeySource::File(path.into()));
    let pem = secret(resolver, &name("private.key.pem")).map(KeySource::Text);
    let Some(private_key) = file.or(pem) else {
        if resolver.given(&name("claim.iss")).is_some() {
            let problem = "an assertion needs a key; set sasl.oauthbearer.assertion.private.key.file";
            push_unusable(resolver, &name("claim.iss"), problem);
            return None;
        }
        return Some(None);
    };
    let algorithm = match resolver.read::<String>(&name("algorithm")).to_uppercase().as_str() {
        "ES256" => Algorithm::Es256,
        _ => Algorithm::Rs256,
    };
    Some(Some(Assertion::Signed(Box::new(AssertionClaims {
        algorithm,
        private_key,
        passphrase: secret(resolver, &name("private.key.passphrase")),
        template: resolver.text(&name("template.file")).map(PathBuf::from),
        issuer: resolver.text(&name("claim.iss")),
        subject: resolver.text(&name("claim.sub")),
        audience: resolver.text(&name("claim.aud")),
        expires_after_seconds: resolver.read(&name("claim.exp.seconds")),
        valid_before_seconds: resolver.read(&name("claim.nbf.seconds")),
        has_id: resolver.read(&name("claim.jti.include")),
    }))))
}

/// SASL extensions of JAAS options and of librdkafka's key. `None` after an error.
fn read_extensions(resolver: &mut Resolver, entry: Option<&JaasEntry>) -> Option<BTreeMap<String, String>> {
    const KEY: &str = "sasl.oauthbearer.extensions";
    let mut extensions = entry.map(jaas_extensions).unwrap_or_default();
    let text = resolver.text(KEY).unwrap_or_default();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            push_unusable(resolver, KEY, "it must be name=value, separated by commas");
            return None;
        };
        extensions.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    Some(extensions)
}

fn jaas_extensions(entry: &JaasEntry) -> BTreeMap<String, String> {
    let options = entry.options.iter();
    let extensions = options.filter_map(|(name, value)| Some((name.strip_prefix(EXTENSION)?, value.expose())));
    extensions
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Options as in `unsecuredLoginStringClaim_sub="alice"`.
fn unsecured_of_jaas(entry: &JaasEntry) -> Result<UnsecuredLogin, String> {
    let named = |name: &str| option(Some(entry), &format!("{UNSECURED}{name}")).map(|value| value.expose().to_owned());
    let mut claims = Map::new();
    for (name, value) in &entry.options {
        let value = value.expose();
        let claim = |kind: &str| name.strip_prefix(UNSECURED)?.strip_prefix(kind);
        if let Some(claim) = claim("StringClaim_") {
            claims.insert(claim.to_owned(), Value::from(value));
        } else if let Some(claim) = claim("NumberClaim_") {
            let number = value.parse().ok().and_then(Number::from_f64);
            let number = number.ok_or_else(|| format!("the option {name} is not a number"))?;
            claims.insert(claim.to_owned(), Value::Number(number));
        } else if let Some(claim) = claim("ListClaim_") {
            claims.insert(claim.to_owned(), Value::Array(list(value)));
        }
    }
    let seconds = named("LifetimeSeconds").map(|seconds| seconds.parse::<i64>());
    let seconds = seconds
        .transpose()
        .map_err(|_| format!("the option {UNSECURED}LifetimeSeconds is not a number"))?;
    let login = UnsecuredLogin {
        principal_claim: named("PrincipalClaimName").unwrap_or_else(|| "sub".to_owned()),
        scope_claim: named("ScopeClaimName").unwrap_or_else(|| "scope".to_owned()),
        lifetime_seconds: seconds.unwrap_or(LIFETIME_DEFAULT_SECONDS),
        claims,
        extensions: jaas_extensions(entry),
    };
    check_principal(login)
}

/// The elements of a list: the first character separates them, as in `|a|b`.
fn list(text: &str) -> Vec<Value> {
    let mut characters = text.chars();
    match characters.next() {
        Some(separator) if !separator.is_alphanumeric() => {
            characters.as_str().split(separator).map(Value::from).collect()
        }
        _ => vec![Value::from(text)],
    }
}

/// librdkafka's text, as in `principal=alice scope=a,b lifeSeconds=60`.
fn unsecured_of_text(text: &str) -> Result<UnsecuredLogin, String> {
    let mut login = UnsecuredLogin {
        principal_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
        lifetime_seconds: LIFETIME_DEFAULT_SECONDS,
        claims: Map::new(),
        extensions: BTreeMap::new(),
    };
    let (mut principal, mut scope) = (None, None);
    for pair in text.split_whitespace() {
        let (name, value) = pair
            .split_once('=')
            .ok_or("it must be name=value, separated by spaces")?;
        match name {
            "principal" => principal = Some(value),
            "principalClaimName" => value.clone_into(&mut login.principal_claim),
            "scope" => scope = Some(value),
            "scopeClaimName" => value.clone_into(&mut login.scope_claim),
            "lifeSeconds" => login.lifetime_seconds = value.parse().map_err(|_| "lifeSeconds is not a number")?,
            name => match name.strip_prefix(EXTENSION) {
                Some(extension) => drop(login.extensions.insert(extension.to_owned(), value.to_owned())),
                None => return Err(format!("{name} is not known")),
            },
        }
    }
    let claims = [
        (&login.principal_claim, principal.map(Value::from)),
        (
            &login.scope_claim,
            scope.map(|scope| Value::Array(scope.split(',').map(Value::from).collect())),
        ),
    ];
    let claims = claims
        .into_iter()
        .filter_map(|(name, value)| Some((name.clone(), value?)));
    login.claims = claims.collect();
    check_principal(login)
}

fn check_principal(login: UnsecuredLogin) -> Result<UnsecuredLogin, String> {
    let claim = &login.principal_claim;
    let principal = login.claims.get(claim).and_then(Value::as_str);
    if principal.is_none_or(|principal| principal.trim().is_empty()) {
        return Err(format!("the token has no principal; set its claim {claim}"));
    }
    if !(1..=i64::from(u32::MAX)).contains(&login.lifetime_seconds) {
        return Err("the lifetime of the token must be at least one second".to_owned());
    }
    Ok(login)
}

fn option<'a>(entry: Option<&'a JaasEntry>, name: &str) -> Option<&'a Secret> {
    entry?.option(name).filter(|value| !value.is_empty())
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

//! The keys `sasl.*`: mechanism and credentials.

use std::sync::Arc;

use milena_config::{ConfigError, Resolver, Setting};
use milena_machines::sasl::{Mechanism, ScramLogin, ScramMechanism};
use milena_security::{
    Secret,
    jaas::{self, JaasEntry},
};

use super::{
    oauth::{self, OAuthConfig},
    push_unusable,
    table::NO_KERBEROS,
    tls::secret,
};
use crate::auth::TokenProvider;

/// Keys that ask for SASL.
pub(super) const CREDENTIALS: &[&str] = &["sasl.jaas.config", "sasl.username", "sasl.password", "sasl.mechanism"];

/// The mechanism of a client with its credentials.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SaslConfig {
    Plain {
        username: String,
        password: Secret,
    },
    Scram {
        mechanism: ScramMechanism,
        username: String,
        password: Secret,
        login: ScramLogin,
    },
    OAuthBearer(OAuthConfig),
}

impl SaslConfig {
    pub(crate) fn mechanism(&self) -> Mechanism {
        match self {
            Self::Plain { .. } => Mechanism::Plain,
            Self::Scram { mechanism, .. } => Mechanism::Scram(*mechanism),
            Self::OAuthBearer(_) => Mechanism::OAuthBearer,
        }
    }
}

pub(super) fn read(resolver: &mut Resolver, provider: Option<Arc<dyn TokenProvider>>) -> Option<SaslConfig> {
    if resolver.is_broken("sasl.mechanism") {
        return None;
    }
    let name: String = resolver.read("sasl.mechanism");
    let name = name.to_uppercase();
    let entry = read_jaas(resolver)?;
    match name.as_str() {
        "GSSAPI" => {
            push_no_mechanism(resolver, &name);
            None
        }
        "OAUTHBEARER" => {
            check_module(resolver, entry.as_ref(), &["OAuthBearerLoginModule", "IAMLoginModule"])?;
            oauth::read(resolver, entry.as_ref(), provider).map(SaslConfig::OAuthBearer)
        }
        "AWS_MSK_IAM" => {
            check_module(resolver, entry.as_ref(), &["OAuthBearerLoginModule", "IAMLoginModule"])?;
            oauth::read_aws(resolver, entry.as_ref()).map(SaslConfig::OAuthBearer)
        }
        _ => {
            check_module(resolver, entry.as_ref(), &["PlainLoginModule", "ScramLoginModule"])?;
            read_password(resolver, &name, entry.as_ref())
        }
    }
}

/// The entry of `sasl.jaas.config`, if there is one. `None` after an error.
#[expect(clippy::option_option, reason = "an absent text is not an error")]
fn read_jaas(resolver: &mut Resolver) -> Option<Option<JaasEntry>> {
    const KEY: &str = "sasl.jaas.config";
    let Some(text) = resolver.text(KEY) else {
        return Some(None);
    };
    match jaas::parse(&text) {
        Ok(entry) => Some(Some(entry)),
        Err(error) => {
            push_unusable(resolver, KEY, error.to_string());
            None
        }
    }
}

/// The module must belong to the mechanism. PLAIN and SCRAM take the same options.
fn check_module(resolver: &mut Resolver, entry: Option<&JaasEntry>, expected: &[&str]) -> Option<()> {
    let Some(entry) = entry else { return Some(()) };
    let class = entry.class_name();
    if expected.contains(&class) {
        return Some(());
    }
    let problem = match class {
        "Krb5LoginModule" => NO_KERBEROS.to_owned(),
        _ => {
            let mechanism: String = resolver.read("sasl.mechanism");
            let expected = expected.join(" or ");
            format!("{class} does not belong to sasl.mechanism={mechanism}, which needs {expected}")
        }
    };
    push_unusable(resolver, "sasl.jaas.config", problem);
    None
}

/// The default mechanism is one that is not supported, so that it must be set.
fn push_no_mechanism(resolver: &mut Resolver, name: &str) {
    let problem = match (resolver.given("sasl.mechanism"), resolver.given("sasl.username")) {
        (Some(_), _) => NO_KERBEROS.to_owned(),
        (None, Some(_)) => format!(
            "sasl.username is set, but sasl.mechanism is not, and its default is {name} (Kerberos), which is not \
             supported; set it to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        ),
        (None, None) => format!(
            "its default is {name} (Kerberos), which is not supported; set it to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or \
             OAUTHBEARER"
        ),
    };
    push_unusable(resolver, "sasl.mechanism", problem);
}

fn read_password(resolver: &mut Resolver, mechanism: &str, entry: Option<&JaasEntry>) -> Option<SaslConfig> {
    if let (Some(username), Some(jaas)) = (
        resolver.given("sasl.username").cloned(),
        resolver.given("sasl.jaas.config").cloned(),
    ) {
        resolver.contradict(username, jaas, "both give the credentials; remove one of them");
        return None;
    }
    let of_entry = |name: &str| entry.and_then(|entry| entry.option(name)).cloned();
    let username = of_entry("username").or_else(|| secret(resolver, "sasl.username"));
    let password = of_entry("password").or_else(|| secret(resolver, "sasl.password"));
    let username = require(resolver, entry, username, ("username", "sasl.username"));
    let password = require(resolver, entry, password, ("password", "sasl.password"));
    let (username, password) = (username?.expose().to_owned(), password?);
    if mechanism == "PLAIN" {
        return Some(SaslConfig::Plain { username, password });
    }
    let mechanism = ScramMechanism::ALL
        .into_iter()
        .find(|scram| scram.name() == mechanism)?;
    if !username.is_ascii() {
        let key = if entry.is_some() {
            "sasl.jaas.config"
        } else {
            "sasl.username"
        };
        push_unusable(
            resolver,
            key,
            format!("{mechanism} allows only ASCII characters in user names"),
        );
        return None;
    }
    let is_token = of_entry("tokenauth").is_some_and(|value| value.expose().eq_ignore_ascii_case("true"));
    Some(SaslConfig::Scram {
        mechanism,
        username,
        password,
        login: if is_token {
            ScramLogin::DelegationToken
        } else {
            ScramLogin::User
        },
    })
}

/// A part of the credentials must be there. `names` are those of the option and of the key.
fn require(
    resolver: &mut Resolver,
    entry: Option<&JaasEntry>,
    value: Option<Secret>,
    (option, key): (&str, &'static str),
) -> Option<Secret> {
    let value = value.filter(|value| !value.is_empty());
    if value.is_some() {
        return value;
    }
    match entry {
        Some(_) => push_unusable(resolver, "sasl.jaas.config", format!("it has no option {option}")),
        None => match resolver.setting("sasl.mechanism").cloned() {
            Some(mechanism) => resolver.contradict(
                mechanism,
                Setting::unset(key),
                "the mechanism needs a user name and a password; set sasl.jaas.config, or sasl.username and sasl.password",
            ),
            None => resolver.push_error(ConfigError::Missing {
                key,
                hint: "or set sasl.jaas.config",
            }),
        },
    }
    None
}

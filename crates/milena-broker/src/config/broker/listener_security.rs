//! The security of one listener: TLS, SASL mechanisms, and the rules for names of clients.

use milena_config::SecurityProtocol;
use milena_machines::sasl::Mechanism;
use milena_security::{
    Secret,
    jaas::{self, JaasEntry},
    principal::PrincipalMapper,
    tls::{ClientAuth, Source, TlsOptions},
};

use super::{
    super::{BrokerConfig, BrokerOverrides, ConfigError},
    Listener, ListenerValues,
    token_options::{TokenOptions, token_options},
};

/// The security of one listener, as its settings describe it. No file has been read.
#[derive(Debug, Clone)]
pub(crate) struct ListenerSecurity {
    /// Present on SSL and SASL_SSL listeners.
    pub(crate) tls: Option<TlsOptions>,
    /// `ssl.principal.mapping.rules`.
    pub(crate) principal_mapper: PrincipalMapper,
    /// Present on SASL_PLAINTEXT and SASL_SSL listeners.
    pub(crate) sasl: Option<SaslOptions>,
    /// Settings that have no effect on this listener, as in Kafka, each with the reason.
    pub(crate) ignored: Vec<(String, &'static str)>,
}

/// The log-ins of one listener.
#[derive(Debug, Clone)]
pub(crate) struct SaslOptions {
    /// In the order of `sasl.enabled.mechanisms`.
    pub(crate) mechanisms: Vec<MechanismOptions>,
    /// The largest frame before the log-in.
    pub(crate) receive_size_max: usize,
}

/// The settings of one mechanism.
#[derive(Debug, Clone)]
pub(crate) struct MechanismOptions {
    pub(crate) mechanism: Mechanism,
    /// The module of `listener.name.<listener>.<mechanism>.sasl.jaas.config`.
    pub(crate) jaas: Option<JaasEntry>,
    /// The longest session; `None` for no limit.
    pub(crate) reauth_ms_max: Option<i64>,
    /// Present for OAUTHBEARER.
    pub(crate) tokens: Option<TokenOptions>,
}

impl BrokerConfig {
    /// The security of a listener.
    pub(crate) fn security_of(&self, listener: &Listener) -> Result<ListenerSecurity, ConfigError> {
        ListenerSecurity::resolve(&self.effective, listener)
    }
}

/// Checks the security of all listeners.
pub(super) fn check_security(raw: &BrokerOverrides, listeners: &[Listener]) -> Result<(), ConfigError> {
    listeners
        .iter()
        .try_for_each(|listener| ListenerSecurity::resolve(raw, listener).map(drop))
}

impl ListenerSecurity {
    fn resolve(raw: &BrokerOverrides, listener: &Listener) -> Result<Self, ConfigError> {
        let name = listener.name.to_lowercase();
        let values = ListenerValues::new(raw, &name);
        let mut ignored = vec![];
        let (has_tls, has_sasl) = parts(listener.protocol);
        let tls = has_tls
            .then(|| tls_options(&values, has_sasl, &mut ignored))
            .transpose()?;
        let sasl = has_sasl.then(|| sasl_options(&values, listener, &mut ignored));
        let rules: String = values.get("ssl.principal.mapping.rules")?;
        let principal_mapper =
            PrincipalMapper::parse(&rules).map_err(|error| security_error(listener, error.to_string()))?;
        Ok(Self {
            tls,
            principal_mapper,
            sasl: sasl.transpose()?,
            ignored,
        })
    }

    /// Whether every client of the listener has to prove its identity.
    pub(crate) fn authenticates(&self) -> bool {
        let by_certificate = |tls: &TlsOptions| tls.client_auth == ClientAuth::Required;
        self.sasl.is_some() || self.tls.as_ref().is_some_and(by_certificate)
    }

    /// Whether passwords of clients cross the network in clear.
    pub(crate) fn exposes_passwords(&self) -> bool {
        let reveals = |one: &MechanismOptions| matches!(one.mechanism, Mechanism::Plain | Mechanism::OAuthBearer);
        let sasl = self.sasl.as_ref().filter(|_| self.tls.is_none());
        sasl.is_some_and(|sasl| sasl.mechanisms.iter().any(reveals))
    }
}

/// Whether a protocol has TLS, and whether it has SASL.
fn parts(protocol: SecurityProtocol) -> (bool, bool) {
    match protocol {
        SecurityProtocol::Plaintext => (false, false),
        SecurityProtocol::Ssl => (true, false),
        SecurityProtocol::SaslPlaintext => (false, true),
        SecurityProtocol::SaslSsl => (true, true),
    }
}

fn tls_options(
    values: &ListenerValues<'_>,
    has_sasl: bool,
    ignored: &mut Vec<(String, &'static str)>,
) -> Result<TlsOptions, ConfigError> {
    let text = |key| values.find::<String>(key);
    let secret = |key| Ok::<_, ConfigError>(text(key)?.map(Secret::from));
    let file = |key| Ok::<_, ConfigError>(text(key)?.map(Source::file));
    let pem = |key| Ok::<_, ConfigError>(text(key)?.map(Source::text));
    Ok(TlsOptions {
        keystore: file("ssl.keystore.location")?,
        keystore_password: secret("ssl.keystore.password")?,
        key_password: secret("ssl.key.password")?,
        key: pem("ssl.keystore.key")?,
        certificate_chain: pem("ssl.keystore.certificate.chain")?,
        truststore: file("ssl.truststore.location")?,
        truststore_certificates: pem("ssl.truststore.certificates")?,
        truststore_password: secret("ssl.truststore.password")?,
        protocols: values.get("ssl.enabled.protocols")?,
        cipher_suites: values.find("ssl.cipher.suites")?.unwrap_or_default(),
        client_auth: client_auth(values, has_sasl, ignored)?,
        allow_dn_changes: values.get("ssl.allow.dn.changes")?,
        allow_san_changes: values.get("ssl.allow.san.changes")?,
        ..TlsOptions::default()
    })
}

/// On a SASL_SSL listener only its own `ssl.client.auth` counts, as in Kafka: clients log in by SASL there.
fn client_auth(
    values: &ListenerValues<'_>,
    has_sasl: bool,
    ignored: &mut Vec<(String, &'static str)>,
) -> Result<ClientAuth, ConfigError> {
    let key = "ssl.client.auth";
    let own: Option<String> = values.find_own(key)?;
    let effective: String = values.get(key)?;
    let value = match own {
        Some(own) => own,
        None if has_sasl => {
            if effective != "none" {
                ignored.push((key.to_owned(), NOT_FOR_SASL));
            }
            "none".to_owned()
        }
        None => effective,
    };
    Ok(match value.as_str() {
        "required" => ClientAuth::Required,
        "requested" => ClientAuth::Requested,
        _ => ClientAuth::None,
    })
}

fn sasl_options(
    values: &ListenerValues<'_>,
    listener: &Listener,
    ignored: &mut Vec<(String, &'static str)>,
) -> Result<SaslOptions, ConfigError> {
    if values.find::<String>(JAAS)?.is_some() {
        ignored.push((values.name_of(JAAS), NOT_FOR_ALL_MECHANISMS));
    }
    let enabled: Vec<String> = values.get(MECHANISMS)?;
    let mut mechanisms = vec![];
    for name in enabled {
        let mechanism = Mechanism::from_name(&name).ok_or_else(|| unknown_mechanism(listener, values, &name))?;
        mechanisms.push(mechanism_options(values, listener, mechanism)?);
    }
    if mechanisms.is_empty() {
        return Err(security_error(
            listener,
            format!("{MECHANISMS} must name at least one mechanism"),
        ));
    }
    let size: i32 = values.get("sasl.server.max.receive.size")?;
    Ok(SaslOptions {
        mechanisms,
        receive_size_max: usize::try_from(size).unwrap_or(0),
    })
}

fn mechanism_options(
    values: &ListenerValues<'_>,
    listener: &Listener,
    mechanism: Mechanism,
) -> Result<MechanismOptions, ConfigError> {
    let name = mechanism.name().to_lowercase();
    let values = values.of_mechanism(&name);
    let key = format!("listener.name.{}.{name}.{JAAS}", listener.name.to_lowercase());
    // Only the key with the mechanism counts: a text for all mechanisms would have the modules of one of them.
    let text = Some(values.name_of(JAAS)).filter(|set| *set == key);
    let text = text.map_or(Ok(None), |_| values.find::<String>(JAAS))?;
    let jaas = match text {
        None => None,
        Some(text) => {
            let entry = jaas::parse(&text).map_err(|error| security_error(listener, format!("{key}: {error}")))?;
            check_module(listener, &key, &entry, mechanism)?;
            Some(entry)
        }
    };
    if mechanism == Mechanism::Plain && jaas.is_none() {
        let example = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"…\";";
        return Err(security_error(
            listener,
            format!("PLAIN is enabled but has no users; set {key}, such as {example}"),
        ));
    }
    let tokens = match mechanism {
        Mechanism::OAuthBearer => {
            let refuse = |problem| security_error(listener, problem);
            Some(token_options(&values, jaas.as_ref(), &refuse)?)
        }
        Mechanism::Plain | Mechanism::Scram(_) => None,
    };
    let reauth_ms: i64 = values.get("connections.max.reauth.ms")?;
    Ok(MechanismOptions {
        mechanism,
        jaas,
        reauth_ms_max: Some(reauth_ms).filter(|ms| *ms > 0),
        tokens,
    })
}

/// The log-in module must be that of the mechanism.
fn check_module(listener: &Listener, key: &str, entry: &JaasEntry, mechanism: Mechanism) -> Result<(), ConfigError> {
    let expected = match mechanism {
        Mechanism::Plain => "PlainLoginModule",
        Mechanism::Scram(_) => "ScramLoginModule",
        Mechanism::OAuthBearer => "OAuthBearerLoginModule",
    };
    if entry.class_name() == expected {
        return Ok(());
    }
    let problem = format!("{key} names the module {}; {mechanism} needs {expected}", entry.module);
    Err(security_error(listener, problem))
}

fn unknown_mechanism(listener: &Listener, values: &ListenerValues<'_>, name: &str) -> ConfigError {
    let known = Mechanism::ALL.map(Mechanism::name).join(", ");
    let key = values.name_of(MECHANISMS);
    let problem = match name {
        "GSSAPI" => format!("GSSAPI (Kerberos) is not supported; set {key} to some of {known}"),
        _ => format!("{key} names {name}; the mechanisms are {known}"),
    };
    security_error(listener, problem)
}

fn security_error(listener: &Listener, problem: String) -> ConfigError {
    ConfigError::Security {
        listener: listener.name.clone(),
        problem,
    }
}

const JAAS: &str = "sasl.jaas.config";
const MECHANISMS: &str = "sasl.enabled.mechanisms";
const NOT_FOR_SASL: &str = "clients of a SASL_SSL listener log in by SASL; set listener.name.<listener>.ssl.client.auth to \
                            ask them for certificates too";
const NOT_FOR_ALL_MECHANISMS: &str =
    "it must be set for one mechanism, as listener.name.<listener>.<mechanism>.sasl.jaas.config";

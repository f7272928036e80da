//! The listeners at run time: their advertised addresses, TLS, log-ins and counters.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
};

use bytestring::ByteString;
use milena_machines::sasl::{Mechanism, SaslServerConfig};
use milena_security::{
    Secret,
    principal::PrincipalMapper,
    tls::{ServerTls, TlsOptions},
};

use super::{failures::LogLimit, listener::BoundListener};
use crate::{
    config::{BrokerConfig, ConfigError, Listener, ListenerSecurity, SaslOptions, SecurityProtocol},
    metrics::ListenerMetrics,
};

/// One listener at run time.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// In upper case.
    pub(crate) name: ByteString,
    pub(crate) protocol: SecurityProtocol,
    /// The advertised address.
    pub(crate) host: ByteString,
    pub(crate) port: u16,
    /// Whether other machines can reach it.
    is_exposed: bool,
    /// Replaced when settings change. A connection keeps the one that it began with.
    security: RwLock<Arc<EndpointSecurity>>,
    pub(crate) metrics: ListenerMetrics,
    pub(super) failure_log: LogLimit,
}

/// The security of a listener, with its files read.
#[derive(Debug)]
pub(crate) struct EndpointSecurity {
    pub(super) tls: Option<(TlsOptions, Arc<ServerTls>)>,
    pub(super) principal_mapper: PrincipalMapper,
    pub(super) sasl: Option<Arc<SaslEndpoint>>,
}

/// The log-ins of a listener.
pub(crate) struct SaslEndpoint {
    mechanisms: Vec<(Mechanism, Option<u64>)>,
    /// The largest frame before the log-in.
    pub(super) receive_size_max: usize,
    /// The users of PLAIN.
    pub(super) plain_users: BTreeMap<String, Secret>,
}

/// All listeners, in the order of `listeners`.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(Vec<Arc<Endpoint>>);

impl Endpoints {
    /// Reads key stores, and fails if one cannot be used.
    pub(crate) fn open(config: &BrokerConfig, bound: &[BoundListener]) -> Result<Self, ConfigError> {
        let opened = config.listeners.iter().zip(bound).map(|(listener, bound)| {
            let security = config.security_of(listener)?;
            check_exposure(config, listener, &security, bound.is_exposed)?;
            for (key, reason) in &security.ignored {
                tracing::warn!(
                    event = "setting_ignored",
                    listener = %listener.name,
                    key,
                    reason,
                    "a setting has no effect on a listener"
                );
            }
            let (host, port) = advertised(config, listener, bound.address);
            Ok(Arc::new(Endpoint {
                name: listener.name.as_str().into(),
                protocol: listener.protocol,
                host: host.into(),
                port,
                is_exposed: bound.is_exposed,
                security: RwLock::new(Arc::new(EndpointSecurity::open(listener, security, None)?)),
                metrics: ListenerMetrics::default(),
                failure_log: LogLimit::default(),
            }))
        });
        opened.collect::<Result<_, ConfigError>>().map(Self)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.0.iter()
    }

    /// The advertised address for clients of a listener; that of the first one for a request of the broker itself.
    pub(crate) fn advertised(&self, listener: &str) -> (ByteString, u16) {
        let endpoint = self.0.iter().find(|endpoint| endpoint.name == listener);
        let endpoint = endpoint.or_else(|| self.0.first());
        endpoint.map_or_else(Default::default, |endpoint| (endpoint.host.clone(), endpoint.port))
    }

    /// Reads the security of all listeners again, for changed settings. Nothing is in force yet.
    pub(crate) fn prepare(&self, config: &BrokerConfig) -> Result<Vec<Arc<EndpointSecurity>>, ConfigError> {
        let prepared = self.0.iter().zip(&config.listeners).map(|(endpoint, listener)| {
            let present = endpoint.security();
            let security = config.security_of(listener)?;
            check_exposure(config, listener, &security, endpoint.is_exposed)?;
            let opened = EndpointSecurity::open(listener, security, Some(&present))?;
            Ok(Arc::new(opened))
        });
        prepared.collect()
    }

    /// Puts prepared security in force, for connections that come from now on.
    pub(crate) fn put_in_force(&self, prepared: Vec<Arc<EndpointSecurity>>) {
        for (endpoint, security) in self.0.iter().zip(prepared) {
            *endpoint.security.write().unwrap_or_else(PoisonError::into_inner) = security;
            endpoint.note_expiry();
            tracing::info!(
                event = "listener_reconfigured",
                listener = %endpoint.name,
                "new connections use the changed settings"
            );
        }
    }
}

impl Endpoint {
    pub(super) fn security(&self) -> Arc<EndpointSecurity> {
        Arc::clone(&self.security.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn has_tls(&self) -> bool {
        matches!(self.protocol, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    /// Reads changed certificate files again. The present certificate stays if they cannot be used.
    pub(super) fn reload_certificate(&self) {
        let security = self.security();
        let Some((_, tls)) = &security.tls else {
            return;
        };
        let listener = &self.name;
        match tls.reload_if_changed() {
            Ok(false) => {}
            Ok(true) => {
                self.metrics.certificate_reloaded(true);
                tracing::info!(event = "certificate_reloaded", %listener, "certificate files have changed and are in use");
            }
            Err(error) => {
                self.metrics.certificate_reloaded(false);
                tracing::warn!(
                    event = "certificate_not_reloaded",
                    %listener,
                    %error,
                    "changed certificate files cannot be used; the listener keeps its certificate"
                );
            }
        }
        self.note_expiry();
    }

    /// Shows in the metrics when the certificate expires.
    pub(super) fn note_expiry(&self) {
        let security = self.security();
        let expires_at = security.tls.as_ref().map(|(_, tls)| tls.expires_at_s());
        self.metrics.certificate_expires_at(expires_at);
    }
}

impl EndpointSecurity {
    /// Reads the files. With unchanged settings, the present TLS is reloaded, so that sessions can be resumed.
    fn open(listener: &Listener, security: ListenerSecurity, present: Option<&Self>) -> Result<Self, ConfigError> {
        let refuse = |error: &dyn fmt::Display| ConfigError::Security {
            listener: listener.name.clone(),
            problem: error.to_string(),
        };
        let present = present.and_then(|present| present.tls.as_ref());
        let tls = match (security.tls, present) {
            (None, _) => None,
            (Some(options), Some((before, tls))) if options == *before => {
                tls.reload().map_err(|error| refuse(&error))?;
                Some((options, Arc::clone(tls)))
            }
            (Some(options), _) => {
                let tls = ServerTls::new(&options).map_err(|error| refuse(&error))?;
                Some((options, Arc::new(tls)))
            }
        };
        Ok(Self {
            tls,
            principal_mapper: security.principal_mapper,
            sasl: security.sasl.map(|sasl| Arc::new(SaslEndpoint::new(sasl))),
        })
    }
}

impl SaslEndpoint {
    fn new(options: SaslOptions) -> Self {
        let limits = options.mechanisms.iter().map(|one| {
            let limit = one.reauth_ms_max.and_then(|ms| u64::try_from(ms).ok());
            (one.mechanism, limit)
        });
        let plain = options.mechanisms.iter().find(|one| one.mechanism == Mechanism::Plain);
        let module = plain.and_then(|plain| plain.jaas.as_ref());
        let options_of_plain = module.into_iter().flat_map(|module| &module.options);
        let users = options_of_plain.filter_map(|(key, value)| {
            let name = key.strip_prefix("user_")?;
            Some((name.to_owned(), value.clone()))
        });
        Self {
            mechanisms: limits.collect(),
            receive_size_max: options.receive_size_max,
            plain_users: users.collect(),
        }
    }
}

impl SaslEndpoint {
    /// The settings of the machine; `fake_salt_key` makes the salts that unknown SCRAM users get.
    pub(super) fn machine(&self, fake_salt_key: [u8; 32]) -> Arc<SaslServerConfig> {
        Arc::new(SaslServerConfig {
            mechanisms: self.mechanisms.clone(),
            fake_salt_key,
        })
    }
}

/// Without secrets.
impl fmt::Debug for SaslEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslEndpoint")
            .field("mechanisms", &self.mechanisms)
            .finish_non_exhaustive()
    }
}

/// Refuses settings made at run time that would open a listener to strangers from other machines.
fn check_exposure(
    config: &BrokerConfig,
    listener: &Listener,
    security: &ListenerSecurity,
    is_exposed: bool,
) -> Result<(), ConfigError> {
    if !is_exposed || config.allow_unauthenticated || security.authenticates() {
        return Ok(());
    }
    Err(ConfigError::Security {
        listener: listener.name.clone(),
        problem: "other machines can reach it, so its clients must log in or need certificates, unless the broker is \
                  started with milena.allow.unauthenticated=true"
            .to_owned(),
    })
}

/// The advertised host and port of a listener.
fn advertised(config: &BrokerConfig, listener: &Listener, address: SocketAddr) -> (String, u16) {
    let mut advertised = config.advertised_listeners.iter();
    let advertised = advertised.find(|one| one.name == listener.name);
    let host = advertised.map(|listener| listener.host.clone());
    let port = advertised.map(|listener| listener.port).filter(|port| *port != 0);
    // Clients cannot connect to an address that stands for every interface.
    let own = if address.ip().is_unspecified() {
        "127.0.0.1".to_owned()
    } else {
        address.ip().to_string()
    };
    let host = host.filter(|host| !host.is_empty()).unwrap_or(own);
    (host, port.unwrap_or_else(|| address.port()))
}

//! Handlers that are HTTP services.

use std::{borrow::Cow, sync::Arc, time::Duration};

use milena_http::{Client, ClientOptions, HttpError, Request, Response, Scheme, Url};

use super::{
    duration_text,
    message::{OutcomeMessage, Request as RecordMessage},
    tls::{HttpTls, ServiceTls},
};
use crate::handler::{Cx, Done, Fault};

/// Timeout of connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bound of idle connections; excess ones are closed.
const IDLE_MAX: usize = 64;
/// Bound of a response's size.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Longest part of a refusal's body that a failure shows.
const REFUSAL_CHARS_MAX: usize = 1024;

/// Reason why a service did not handle a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpHandlerError {
    #[error("{}{}", .0, advice(.0))]
    Http(#[from] HttpError),
    #[error("{address:?} is not https; remove http_ca and the other TLS settings")]
    NotTls { address: String },
    #[error("TLS cannot be configured: {problem}")]
    Tls { problem: String },
    #[error("{host} timed out after {limit} ({setting})")]
    TimedOut {
        host: String,
        limit: String,
        setting: String,
    },
    #[error("{host} responded with {status}: {text}")]
    Status { host: String, status: u16, text: String },
    #[error("the response of {host} is not a valid outcome: {error}")]
    NoOutcome { host: String, error: serde_json::Error },
}

/// The setting that may help.
fn advice(error: &HttpError) -> &'static str {
    match error {
        HttpError::Tls { is_untrusted: true, .. } => "; http_ca sets the trusted CA certificates",
        _ => "",
    }
}

impl HttpHandlerError {
    /// Class of the failure for dead letters.
    fn class(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Status { status, .. } => return format!("http.{status}").into(),
            Self::Http(HttpError::Unreachable { .. }) => "http.unreachable",
            Self::Http(HttpError::Tls { .. }) => "http.tls",
            Self::Http(HttpError::Disconnected { .. }) => "http.disconnected",
            Self::Http(HttpError::TimedOut { .. }) | Self::TimedOut { .. } => "http.timeout",
            Self::Http(HttpError::NotHttp { .. }) => "http.protocol",
            Self::Http(HttpError::TooLarge { .. }) => "http.too_large",
            Self::NoOutcome { .. } => "http.invalid_reply",
            Self::Http(_) | Self::NotTls { .. } | Self::Tls { .. } => "http.configuration",
        })
    }

    /// Returns whether the service is down, so that the record is not at fault.
    fn is_down(&self) -> bool {
        match self {
            Self::Http(HttpError::Unreachable { .. } | HttpError::Tls { .. }) => true,
            Self::Status { status, .. } => matches!(status, 502..=504),
            _ => false,
        }
    }
}

/// An HTTP service that handles records: `POST` with a record as JSON. 204, or 200 without a body, means done; a body
/// has the outcome. 4xx is poison, except 408, 425 and 429. Everything else is retried. With a
/// [breaker](Self::breaker), 502, 503, 504 and a service that cannot be reached are not failures of the record.
#[derive(Debug)]
pub struct HttpHandler {
    client: Client,
    /// `None` without https.
    tls: Option<ServiceTls>,
    timeout: Option<Duration>,
    /// Path of the handler in its file, for messages.
    place: String,
    breaker: Option<String>,
    replies_with_body: bool,
}

impl HttpHandler {
    /// A service at a URL. With https, its certificate must be signed by a CA that the system trusts.
    pub fn new(address: &str) -> Result<Self, HttpHandlerError> {
        Self::with_tls(address, &HttpTls::default())
    }

    /// A service with own CA certificates, or one that demands a certificate of its clients.
    pub fn with_tls(address: &str, tls: &HttpTls) -> Result<Self, HttpHandlerError> {
        let url = Url::parse(address).map_err(HttpError::from)?;
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            response_timeout: None,
            response_bytes_max: RESPONSE_BYTES_MAX,
            idle_max: IDLE_MAX,
        };
        let (client, tls) = match url.scheme() {
            Scheme::Http if tls.is_set() => {
                let address = address.to_owned();
                return Err(HttpHandlerError::NotTls { address });
            }
            Scheme::Http => (Client::plain(url, options)?, None),
            Scheme::Https => {
                let tls = ServiceTls::new(tls).map_err(|problem| HttpHandlerError::Tls { problem })?;
                let client = Client::secured(url, options, &tls.current().config())?;
                (client, Some(tls))
            }
        };
        Ok(Self {
            client,
            tls,
            timeout: None,
            place: "handler".to_owned(),
            breaker: None,
            replies_with_body: false,
        })
    }

    /// Timeout of a response. `place` names the handler in messages, such as `handlers[0]`.
    #[must_use]
    pub fn timeout(mut self, limit: Option<Duration>, place: impl Into<String>) -> Self {
        self.client
            .set_timeouts(limit.map_or(CONNECT_TIMEOUT, |limit| limit.min(CONNECT_TIMEOUT)), limit);
        (self.timeout, self.place) = (limit, place.into());
        self
    }

    /// Counts 502, 503, 504 and connection failures in this breaker; meanwhile the record waits.
    #[must_use]
    pub fn breaker(mut self, name: impl Into<String>) -> Self {
        self.breaker = Some(name.into());
        self
    }

    /// The body of a response is the value of the reply to the record, and not an outcome.
    #[must_use]
    pub fn reply_with_body(mut self) -> Self {
        self.replies_with_body = true;
        self
    }

    /// Sends a record and waits for the response.
    pub async fn handle(self: Arc<Self>, cx: Cx) -> Result<Done, Fault> {
        let body = serde_json::to_vec(&RecordMessage::new(0, &cx)).map_err(Fault::poison)?;
        let request = Request::post("application/json", body);
        if let Some(tls) = &self.tls {
            tls.follow(&self.client);
        }
        let response = self.client.send(&request).await.map_err(|error| self.failed(error))?;
        if !response.is_success() {
            return Err(self.fault(self.refused(&response)));
        }
        if self.replies_with_body {
            return Ok(Done::reply(response.body));
        }
        if response.body.trim_ascii().is_empty() {
            return Ok(Done::Ok);
        }
        let outcome: Result<OutcomeMessage, _> = serde_json::from_slice(&response.body);
        let outcome = outcome.map_err(|error| {
            self.fault(HttpHandlerError::NoOutcome {
                host: self.host(),
                error,
            })
        })?;
        outcome.outcome()
    }

    fn host(&self) -> String {
        self.client.url().authority().to_owned()
    }

    fn failed(&self, error: HttpError) -> Fault {
        self.fault(match (error, self.timeout) {
            (HttpError::TimedOut { host, .. }, Some(limit)) => HttpHandlerError::TimedOut {
                host,
                limit: duration_text(limit),
                setting: format!("{}.timeout", self.place),
            },
            (error, _) => error.into(),
        })
    }

    fn refused(&self, response: &Response) -> HttpHandlerError {
        HttpHandlerError::Status {
            host: self.host(),
            status: response.status,
            text: response.text(REFUSAL_CHARS_MAX),
        }
    }

    fn fault(&self, error: HttpHandlerError) -> Fault {
        let class = error.class();
        let fault = match (&self.breaker, &error) {
            (Some(name), error_) if error_.is_down() => Fault::dependency(name.clone())(error),
            (_, HttpHandlerError::Status { status, .. }) => match status {
                408 | 425 | 429 => Fault::retry(error),
                400..500 => Fault::poison(error),
                _ => Fault::retry(error),
            },
            _ => Fault::retry(error),
        };
        fault.with_class(class)
    }
}

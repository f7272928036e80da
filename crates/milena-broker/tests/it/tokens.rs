//! OAUTHBEARER: signed tokens, keys that change, and unsecured tokens.

use std::{
    io::{Read, Write},
    net::TcpListener,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use milena_machines::sasl::{
    ClientAction, ClientAuthenticator, ClientExchange, SaltedPassword, ScramLogin, ScramMechanism,
};
use milena_security::{
    Secret,
    jwt::{self, Algorithm, SigningKey},
};
use milena_wire::{errors::ErrorCode, messages::*};
use serde_json::{Value, json};

use crate::{
    client::Client,
    listeners::{metrics, start_with_metrics},
    running::{Running, try_start},
};

const URL: &str = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url";

/// A key of an issuer.
struct Key {
    id: &'static str,
    pair: rcgen::KeyPair,
}

impl Key {
    fn new(id: &'static str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        Self { id, pair }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key_raw();
        let coordinate = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
        json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": coordinate(1), "y": coordinate(33) })
    }

    fn sign(&self, claims: &Value) -> String {
        let key = SigningKey::from_pem(&Secret::from(self.pair.serialize_pem()), None).unwrap();
        let header = json!({ "kid": self.id });
        let (header, claims) = (header.as_object().unwrap(), claims.as_object().unwrap());
        let token = jwt::sign(Algorithm::Es256, &key, header, claims).unwrap();
        token.expose().to_owned()
    }
}

fn jwks(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>() }).to_string()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({ "sub": "alice", "iss": "https://issuer", "aud": ["kafka", "other"], "iat": now_s(), "exp": now_s() + 60 })
}

fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

fn start(dir: &Path, settings: &[(&str, &str)]) -> Running {
    let mut all = vec![
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"),
        ("sasl.enabled.mechanisms", "OAUTHBEARER,SCRAM-SHA-256"),
    ];
    all.extend(settings);
    start_with_metrics(dir, &all)
}

/// Logs in with a token. Returns the lifetime of the session, or the error's text.
fn log_in(broker: &Running, token: &str) -> Result<i64, String> {
    let exchange = ClientExchange::oauth_bearer(token, "", &[].into()).unwrap();
    drive(&mut client(broker), ClientAuthenticator::new(exchange), "")
}

fn client(broker: &Running) -> Client {
    Client::connect(&broker.listener("SASL_PLAINTEXT").to_string())
}

/// Runs a log-in of any mechanism.
fn drive(client: &mut Client, mut login: ClientAuthenticator, password: &str) -> Result<i64, String> {
    let response = client.call(&login.handshake_request(), 1);
    let mut action = login.handle_handshake(&response);
    loop {
        action = match action.map_err(|error| error.to_string())? {
            ClientAction::Authenticate(request) => login.handle_authenticate(&client.call(&request, 2)),
            ClientAction::DeriveSaltedPassword { salt, iterations } => {
                let mechanism = ScramMechanism::Sha256;
                let password = SaltedPassword::derive(mechanism, password.as_bytes(), &salt, iterations);
                login.handle_salted_password(&password)
            }
            ClientAction::Done { session_lifetime_ms } => {
                return Ok(session_lifetime_ms.map_or(0, |ms| i64::try_from(ms).unwrap()));
            }
        };
    }
}

#[test]
fn signed_tokens_log_in_and_others_do_not() {
    let (dir, keys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (key, foreign) = (Key::new("one"), Key::new("one"));
    let file = keys.path().join("keys.json");
    std::fs::write(&file, jwks(&[&key])).unwrap();
    let url = format!("file://{}", file.display());
    let broker = start(
        dir.path(),
        &[
            (URL, &url),
            ("sasl.oauthbearer.expected.audience", "kafka"),
            ("sasl.oauthbearer.expected.issuer", "https://issuer"),
        ],
    );
    let lifetime_ms = log_in(&broker, &key.sign(&claims())).unwrap();
    assert!((50_000..=60_000).contains(&lifetime_ms), "{lifetime_ms}");
    let unsecured = {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({ "alg": "none" })), part(&claims()))
    };
    for (problem, token) in [
        ("another key", foreign.sign(&claims())),
        ("audience", key.sign(&with("aud", "strangers"))),
        ("issuer", key.sign(&with("iss", "https://mallory"))),
        ("expired", key.sign(&with("exp", now_s() - 31))),
        ("no subject", key.sign(&with("sub", ""))),
        ("no signature", unsecured),
        ("no token", "rubbish".to_owned()),
    ] {
        let error = log_in(&broker, &token).unwrap_err();
        assert!(error.contains("{\"status\":\"invalid_token\"}"), "{problem}: {error}");
        assert!(!error.contains(&token), "{problem}");
    }
    // Within the allowed skew.
    assert_eq!(log_in(&broker, &key.sign(&with("exp", now_s() - 1))), Ok(0));

    // A key that the issuer added is read with the first token that names it.
    let next = Key::new("two");
    std::fs::write(&file, jwks(&[&key, &next])).unwrap();
    assert!(log_in(&broker, &next.sign(&claims())).is_ok());
    assert!(log_in(&broker, &key.sign(&claims())).is_ok());
    broker.shutdown();
}

/// A service of keys that counts its requests.
fn serve_keys(body: &Arc<Mutex<String>>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let (body, counter) = (Arc::clone(body), Arc::clone(&count));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            counter.fetch_add(1, Ordering::SeqCst);
            let body = body.lock().unwrap().clone();
            let status = if body.is_empty() {
                "500 Internal Server Error"
            } else {
                "200 OK"
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    (url, count)
}

#[test]
fn keys_of_a_service_are_refreshed_and_invented_key_ids_do_not_flood_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Key::new("one"), Key::new("two"));
    let body = Arc::new(Mutex::new(jwks(&[&one])));
    let (url, count) = serve_keys(&body);
    let broker = start(
        dir.path(),
        &[
            (URL, &url),
            ("sasl.oauthbearer.expected.audience", "kafka"),
            ("connection.failed.authentication.delay.ms", "0"),
            // A failed refresh is not repeated, so that requests can be counted.
            ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "0"),
        ],
    );
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert!(log_in(&broker, &one.sign(&claims())).is_ok());
    assert_eq!(count.load(Ordering::SeqCst), 1);
    *body.lock().unwrap() = jwks(&[&two]);
    assert!(log_in(&broker, &two.sign(&claims())).is_ok());
    assert_eq!(count.load(Ordering::SeqCst), 2);
    // The old key is gone, and a reason for one more refresh, a second after the last.
    assert!(log_in(&broker, &one.sign(&claims())).is_err());
    // The service fails; the keys stay.
    *body.lock().unwrap() = String::new();
    let began = std::time::Instant::now();
    for _ in 0..40 {
        assert!(log_in(&broker, &Key::new("invented").sign(&claims())).is_err());
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    let requests = count.load(Ordering::SeqCst);
    assert!(requests <= 4 + seconds, "{requests} requests in {seconds} s");
    assert!(log_in(&broker, &two.sign(&claims())).is_ok());
    let text = metrics(&broker);
    let line = "milena_broker_jwks_refreshes_total{listener=\"SASL_PLAINTEXT\",result=\"success\"}";
    assert!(text.contains(line), "{text}");
    broker.shutdown();
}

#[test]
fn a_broker_without_keys_does_not_start() {
    let start = |settings: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        let mut all = vec![
            ("listeners", "SASL_PLAINTEXT://127.0.0.1:0"),
            ("sasl.enabled.mechanisms", "OAUTHBEARER"),
            ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "50"),
        ];
        all.extend(settings);
        try_start(dir.path(), &all)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let (failing, _) = serve_keys(&Arc::default());
    let unsecured = ("milena.oauthbearer.unsecured", "true");
    for (settings, problem) in [
        (vec![], "tokens cannot be verified"),
        (vec![(URL, "file:///does/not/exist")], "cannot read /does/not/exist"),
        (vec![(URL, "keys.json")], "must be a URL with https:, http: or file:"),
        (vec![(URL, failing.as_str())], "responds with status 500"),
        (vec![(URL, "http://127.0.0.1:1/")], "cannot be reached"),
        (vec![(URL, "file:///x"), unsecured], "contradict each other"),
        (
            vec![("sasl.oauthbearer.token.endpoint.url", "https://issuer")],
            "requests none for itself",
        ),
    ] {
        let error = start(&settings);
        assert!(error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn unsecured_tokens_need_a_setting() {
    let dir = tempfile::tempdir().unwrap();
    let module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
                  unsecuredValidatorRequiredScope=\"read write\" unsecuredValidatorPrincipalClaimName=\"name\";";
    let broker = start(
        dir.path(),
        &[
            (
                "listener.name.sasl_plaintext.oauthbearer.milena.oauthbearer.unsecured",
                "true",
            ),
            ("listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config", module),
        ],
    );
    let token = |claims: Value| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&json!({ "alg": "none" })), part(&claims))
    };
    let good = json!({ "name": "alice", "scope": ["read", "write"], "iat": now_s(), "exp": now_s() + 60 });
    assert!(log_in(&broker, &token(good)).is_ok());
    let narrow = json!({ "name": "alice", "scope": ["read"], "iat": now_s(), "exp": now_s() + 60 });
    let error = log_in(&broker, &token(narrow)).unwrap_err();
    assert!(error.contains("insufficient_scope"), "{error}");
    let nameless = json!({ "sub": "alice", "scope": ["read", "write"], "iat": now_s(), "exp": now_s() + 60 });
    assert!(log_in(&broker, &token(nameless)).unwrap_err().contains("invalid_token"));
    broker.shutdown();
}

#[test]
fn scram_users_log_in_as_soon_as_they_exist() {
    use alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion};
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("milena.oauthbearer.unsecured", "true")]);
    let log_in = |password: &str| {
        let exchange = ClientExchange::scram(ScramMechanism::Sha256, "alice", ScramLogin::User, [7; 18]).unwrap();
        drive(&mut client(&broker), ClientAuthenticator::new(exchange), password)
    };
    let refused =
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256";
    assert!(log_in("wonder").unwrap_err().contains(refused));
    let mut admin = Client::connect(&broker.listener("PLAINTEXT").to_string());
    let salted = SaltedPassword::derive(ScramMechanism::Sha256, b"wonder", b"salt", 8192);
    let request = AlterUserScramCredentialsRequest {
        upsertions: vec![ScramCredentialUpsertion {
            name: "alice".into(),
            mechanism: 1,
            iterations: 8192,
            salt: "salt".into(),
            salted_password: bytes::Bytes::copy_from_slice(salted.as_bytes()),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(admin.call(&request, 0).results[0].error_code, 0);
    assert_eq!(log_in("wonder"), Ok(0));
    assert!(log_in("land").unwrap_err().contains(refused));
    let request = AlterUserScramCredentialsRequest {
        deletions: vec![ScramCredentialDeletion {
            name: "alice".into(),
            mechanism: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(admin.call(&request, 0).results[0].error_code, ErrorCode::None.code());
    assert!(log_in("wonder").unwrap_err().contains(refused));
    broker.shutdown();
}

//! TLS and SASL against Apache Kafka: every mechanism, mutual TLS, re-authentication, and refused clients.

use std::{
    fs,
    sync::OnceLock,
    time::{Duration, Instant},
};

use milena_client::{
    admin::{Admin, AdminError, NewTopic},
    auth::{AuthenticationError, Token, TokenError},
    config::ConfigMap,
    consumer::{Consumer, PollError, TopicPartition},
    producer::{Producer, ProducerRecord, SendError, TransactionCallError},
};
use tokio::sync::Mutex;

use crate::{
    cluster::{
        Cluster,
        Listener::{self, MutualTls, SaslPlaintext, SaslSsl, Ssl},
    },
    programs::{run, xtask},
};

/// The broker ends sessions after this time.
const SESSION_MS: &str = "3000";
/// A refused client must not wait for any timeout of the configuration, of which the shortest has 30 seconds.
const AT_ONCE: Duration = Duration::from_secs(8);

fn secured() -> &'static Cluster {
    static SECURED: OnceLock<Cluster> = OnceLock::new();
    SECURED.get_or_init(|| {
        Cluster::start_secured(&[
            ("connections.max.reauth.ms", SESSION_MS),
            ("allow.everyone.if.no.acl.found", "true"),
        ])
    })
}

/// The settings of a client of this listener, without credentials.
fn of(listener: Listener) -> ConfigMap {
    let protocol = match listener {
        SaslPlaintext => "SASL_PLAINTEXT",
        Ssl | MutualTls => "SSL",
        SaslSsl => "SASL_SSL",
    };
    let mut map = ConfigMap::new();
    map.set("bootstrap.servers", secured().secured(listener))
        .set("security.protocol", protocol);
    if listener != SaslPlaintext {
        map.set("ssl.ca.location", secured().certificate("ca.pem"));
    }
    map
}

/// With more settings.
fn with(mut map: ConfigMap, settings: &[(&str, &str)]) -> ConfigMap {
    map.extend(settings.iter().copied());
    map
}

fn jaas(module: &str, options: &str) -> String {
    format!("org.apache.kafka.common.security.{module} required {options};")
}

fn password_jaas(module: &str) -> String {
    jaas(module, "username=\"alice\" password=\"alice-secret\"")
}

const UNSIGNED: &str = "unsecuredLoginStringClaim_sub=\"alice\"";

/// Credentials for every mechanism, in Java's form.
fn mechanisms() -> Vec<(&'static str, String)> {
    vec![
        ("PLAIN", password_jaas("plain.PlainLoginModule")),
        ("SCRAM-SHA-256", password_jaas("scram.ScramLoginModule")),
        ("SCRAM-SHA-512", password_jaas("scram.ScramLoginModule")),
        ("OAUTHBEARER", jaas("oauthbearer.OAuthBearerLoginModule", UNSIGNED)),
    ]
}

/// Creates a topic, writes a record and reads it, each with a client of its own.
async fn round_trip(settings: &ConfigMap, topic: &str) {
    let admin = Admin::new(settings.clone()).unwrap();
    let created = admin.create_topics([NewTopic::new(topic).partitions(1)]).await;
    created.into_values().for_each(|created| drop(created.unwrap()));
    let producer = Producer::new(settings.clone()).unwrap();
    let sent = producer.send(ProducerRecord::new(topic).value(b"secured")).await;
    assert_eq!(sent.unwrap().offset, Some(0));
    let mut consumer = reader(settings, topic);
    let records = loop {
        let records = consumer.poll(Duration::from_secs(20)).await.unwrap();
        if !records.is_empty() {
            break records;
        }
    };
    let values: Vec<_> = records.iter().map(|record| record.value()).collect();
    assert_eq!(values, [Some(&b"secured"[..])]);
}

fn reader(settings: &ConfigMap, topic: &str) -> Consumer {
    let settings = with(settings.clone(), &[("auto.offset.reset", "earliest")]);
    let mut consumer = Consumer::new(settings).unwrap();
    consumer.assign([TopicPartition::new(topic, 0)]).unwrap();
    consumer
}

#[tokio::test]
async fn every_mechanism_logs_in_with_and_without_tls() {
    for listener in [SaslPlaintext, SaslSsl] {
        for (mechanism, jaas) in mechanisms() {
            let settings = with(
                of(listener),
                &[("sasl.mechanism", mechanism), ("sasl.jaas.config", &jaas)],
            );
            round_trip(&settings, &format!("log-in-{listener:?}-{mechanism}")).await;
        }
    }
}

#[tokio::test]
async fn librdkafkas_keys_log_in_too() {
    let password = [("sasl.username", "bob"), ("sasl.password", "bob-secret")];
    let settings = with(of(SaslSsl), &[("sasl.mechanisms", "SCRAM-SHA-512")]);
    round_trip(&with(settings, &password), "librdkafka-scram").await;
    let unsigned = [
        ("sasl.mechanisms", "OAUTHBEARER"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "true"),
        ("sasl.oauthbearer.config", "principal=bob lifeSeconds=60"),
    ];
    round_trip(&with(of(SaslPlaintext), &unsigned), "librdkafka-oauth").await;
}

#[tokio::test]
async fn a_client_certificate_logs_in_from_every_kind_of_file() {
    let file = |name: &str| secured().certificate(name);
    round_trip(&of(Ssl), "tls-without-a-certificate").await;
    let pem = file("alice.pem");
    let stores = [
        vec![("ssl.keystore.location", pem.clone())],
        vec![
            ("ssl.keystore.location", file("alice.p12")),
            ("ssl.keystore.password", "changeit".to_owned()),
        ],
        vec![
            ("ssl.keystore.location", file("alice.jks")),
            ("ssl.keystore.password", "changeit".to_owned()),
            ("ssl.key.password", "changeit".to_owned()),
        ],
        vec![
            ("ssl.key.location", file("alice.key")),
            ("ssl.certificate.location", file("alice.crt")),
        ],
        vec![
            ("ssl.keystore.key", format!("${{dir:{}:alice.key}}", file(""))),
            (
                "ssl.keystore.certificate.chain",
                format!("${{dir:{}:alice.crt}}", file("")),
            ),
        ],
    ];
    for (index, store) in stores.into_iter().enumerate() {
        let mut settings = of(MutualTls);
        settings.extend(store);
        for truststore in ["truststore.p12", "truststore.jks"] {
            let mut settings = settings.clone();
            settings.remove("ssl.ca.location");
            settings
                .set("ssl.truststore.location", file(truststore))
                .set("ssl.truststore.password", "changeit");
            round_trip(&settings, &format!("certificate-{index}-{truststore}")).await;
        }
    }
}

/// The errors of every kind of call, and the time they took.
async fn refusals(settings: &ConfigMap) -> Vec<AuthenticationError> {
    let began = Instant::now();
    let mut errors = vec![];
    let mut consumer = reader(settings, "refused");
    match consumer.poll(Duration::from_secs(60)).await {
        Err(PollError::Authentication(error)) => errors.push(error),
        other => panic!("{other:?}"),
    }
    let producer = Producer::new(settings.clone()).unwrap();
    match producer.send(ProducerRecord::new("refused").value(b"x")).await {
        Err(SendError::Authentication(error)) => errors.push(error),
        other => panic!("{other:?}"),
    }
    let admin = Admin::new(settings.clone()).unwrap();
    let created = admin.create_topics([NewTopic::new("refused").partitions(1)]).await;
    match created.into_values().next() {
        Some(Err(AdminError::Authentication { error, .. })) => errors.push(*error),
        other => panic!("{other:?}"),
    }
    let settings = with(settings.clone(), &[("transactional.id", "refused")]);
    let transactional = Producer::new(settings).unwrap();
    match transactional.init_transactions().await {
        Err(TransactionCallError::Authentication(error)) => errors.push(error),
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    errors
}

#[tokio::test]
async fn wrong_credentials_end_every_call_at_once_with_the_brokers_text() {
    let wrong = |module: &str| jaas(module, "username=\"alice\" password=\"wrong\"");
    let invalid = |mechanism: &str| {
        format!(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
    };
    let cases = [
        (
            "PLAIN",
            wrong("plain.PlainLoginModule"),
            "Authentication failed: Invalid username or password".to_owned(),
        ),
        (
            "SCRAM-SHA-256",
            wrong("scram.ScramLoginModule"),
            invalid("SCRAM-SHA-256"),
        ),
        (
            "SCRAM-SHA-512",
            wrong("scram.ScramLoginModule"),
            invalid("SCRAM-SHA-512"),
        ),
    ];
    for (mechanism, jaas, text) in cases {
        let settings = with(
            of(SaslSsl),
            &[("sasl.mechanism", mechanism), ("sasl.jaas.config", &jaas)],
        );
        for error in refusals(&settings).await {
            let expected = (secured().secured(SaslSsl), mechanism.to_owned(), text.clone());
            assert_eq!((error.broker, error.mechanism, error.text), expected);
        }
    }
}

#[tokio::test]
async fn a_token_that_the_broker_refuses_ends_every_call_at_once() {
    let mut malformed = with(of(SaslPlaintext), &[("sasl.mechanism", "OAUTHBEARER")]);
    milena_client::config::set_token_provider(
        &mut malformed,
        std::sync::Arc::new(|| async { Ok::<_, TokenError>(Token::new("not.a.token", i64::MAX)) }),
    );
    for error in refusals(&malformed).await {
        assert!(error.text.contains("invalid_token"), "{error}");
    }
}

#[tokio::test]
async fn certificates_that_do_not_fit_end_every_call_at_once() {
    let mut untrusting = of(Ssl);
    // Any other certificate than that of the authority.
    untrusting.set("ssl.ca.location", secured().certificate("alice.crt"));
    for error in refusals(&untrusting).await {
        assert_eq!(error.mechanism, "TLS");
        assert!(error.text.contains("Milena test CA"), "{error}");
    }
    // The listener wants a certificate of the client.
    for error in refusals(&of(MutualTls)).await {
        assert_eq!(error.mechanism, "TLS", "{error}");
    }
}

#[tokio::test]
async fn a_wrong_security_protocol_is_named() {
    let plain = |address: String| {
        let mut map = ConfigMap::new();
        map.set("bootstrap.servers", address);
        map
    };
    let plain_address = secured().address.clone();
    let mut tls_to_plain = of(Ssl);
    tls_to_plain.set("bootstrap.servers", &plain_address);
    let mut sasl_to_plain = of(SaslPlaintext);
    sasl_to_plain
        .set("bootstrap.servers", &plain_address)
        .set("sasl.mechanism", "PLAIN")
        .set("sasl.username", "alice")
        .set("sasl.password", "alice-secret");
    for (settings, hint) in [
        (
            plain(secured().secured(Ssl)),
            "set security.protocol to SSL or SASL_SSL",
        ),
        (
            plain(secured().secured(SaslPlaintext)),
            "if its listener requires SASL, set security.protocol to SASL_SSL or SASL_PLAINTEXT",
        ),
        (tls_to_plain, "security.protocol"),
        (sasl_to_plain, "set security.protocol to SSL or PLAINTEXT"),
    ] {
        let admin = Admin::new(settings).unwrap();
        let error = admin.connect(Duration::from_secs(3)).await.unwrap_err();
        assert!(error.to_string().contains(hint), "{error}\nexpected: {hint}");
    }
}

/// Reads numbered records until this many have arrived, in order.
async fn read_in_order(consumer: &mut Consumer, count: usize) {
    let mut next = 0;
    while next < count {
        for record in &consumer.poll(Duration::from_secs(30)).await.unwrap() {
            let number: usize = std::str::from_utf8(record.value().unwrap()).unwrap().parse().unwrap();
            assert_eq!(number, next);
            next += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_renewed_under_load_on_the_same_connection() {
    const SESSIONS: u64 = 3;
    for (listener, mechanism, jaas) in [
        (SaslSsl, "SCRAM-SHA-512", password_jaas("scram.ScramLoginModule")),
        (
            SaslPlaintext,
            "OAUTHBEARER",
            jaas("oauthbearer.OAuthBearerLoginModule", UNSIGNED),
        ),
        (SaslPlaintext, "PLAIN", password_jaas("plain.PlainLoginModule")),
    ] {
        let settings = with(
            of(listener),
            &[("sasl.mechanism", mechanism), ("sasl.jaas.config", &jaas)],
        );
        let topic = format!("renewed-{mechanism}");
        let admin = Admin::new(settings.clone()).unwrap();
        let created = admin.create_topics([NewTopic::new(topic.as_str()).partitions(1)]).await;
        created.into_values().for_each(|created| drop(created.unwrap()));
        let producer = Producer::new(settings.clone()).unwrap();
        let mut consumer = reader(&settings, &topic);
        let began = Instant::now();
        let session = Duration::from_millis(SESSION_MS.parse().unwrap());
        let mut count = 0_usize;
        let mut deliveries = vec![];
        while began.elapsed() < session * (SESSIONS as u32 + 1) {
            for _ in 0..50 {
                let value = count.to_string();
                let record = ProducerRecord::new(&topic).value(value.as_bytes());
                deliveries.push(producer.enqueue(record).await.unwrap());
                count += 1;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for delivery in deliveries {
            delivery.await.unwrap();
        }
        read_in_order(&mut consumer, count).await;
        let metrics = producer.metrics();
        let number = |name: &str| metrics.get(name).unwrap_or_default();
        assert!(
            number("successful-reauthentication-total") >= SESSIONS as f64,
            "{mechanism}"
        );
        assert_eq!(number("failed-reauthentication-total"), 0.0, "{mechanism}");
        assert_eq!(number("connection-close-total"), 0.0, "{mechanism}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_replaced_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let keystore = dir.path().join("client.pem");
    // A certificate that the broker does not trust: its own issuer.
    let mut openssl = std::process::Command::new("openssl");
    let made = openssl.current_dir(dir.path()).args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "certificate.pem",
        "-subj",
        "/CN=alice",
        "-days",
        "3",
    ]);
    run(made, "");
    let own = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    fs::write(&keystore, own("key.pem") + &own("certificate.pem")).unwrap();
    let mut settings = of(MutualTls);
    settings.set("ssl.keystore.location", keystore.display());
    let producer = Producer::new(settings).unwrap();
    let topic = "replaced-certificate";
    match producer.send(ProducerRecord::new(topic).value(b"1")).await {
        Err(SendError::Authentication(error)) => assert_eq!(error.mechanism, "TLS"),
        other => panic!("{other:?}"),
    }
    let admin = Admin::new(of(Ssl)).unwrap();
    let created = admin.create_topics([NewTopic::new(topic).partitions(1)]).await;
    created.into_values().for_each(|created| drop(created.unwrap()));
    fs::copy(secured().certificate("alice.pem"), &keystore).unwrap();
    let began = Instant::now();
    loop {
        match producer.send(ProducerRecord::new(topic).value(b"2")).await {
            Ok(_) => break,
            Err(SendError::Authentication(_)) if began.elapsed() < Duration::from_secs(25) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_token_of_another_identity_makes_a_new_connection() {
    static NAME: Mutex<&str> = Mutex::const_new("alice");
    let mut settings = with(of(SaslPlaintext), &[("sasl.mechanism", "OAUTHBEARER")]);
    milena_client::config::set_token_provider(
        &mut settings,
        std::sync::Arc::new(|| async {
            let name = *NAME.lock().await;
            Ok::<_, TokenError>(unsigned_token(name, 4))
        }),
    );
    let topic = "other-identity";
    round_trip(&settings, topic).await;
    let producer = Producer::new(settings).unwrap();
    producer.send(ProducerRecord::new(topic).value(b"alice")).await.unwrap();
    *NAME.lock().await = "bob";
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        producer.send(ProducerRecord::new(topic).value(b"both")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let metrics = producer.metrics();
    let number = |name: &str| metrics.get(name).unwrap_or_default();
    assert_eq!(number("failed-reauthentication-total"), 0.0);
    assert!(number("connection-creation-total") > 1.0);
}

fn unsigned_token(name: &str, seconds: i64) -> Token {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let claims = format!("{{\"sub\":\"{name}\",\"iat\":{now},\"exp\":{}}}", now + seconds);
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let value = format!("{}.{}.", part("{\"alg\":\"none\"}"), part(&claims));
    let mut token = Token::new(value, (now + seconds) * 1000).principal(name);
    token.issued_at_ms = Some(now * 1000);
    token
}

#[tokio::test]
async fn a_delegation_token_logs_in() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("admin.properties");
    let jaas_admin = jaas("scram.ScramLoginModule", "username=\"admin\" password=\"admin-secret\"");
    let ca = secured().certificate("ca.pem");
    fs::write(
        &config,
        format!(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={jaas_admin}\n\
             ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
        ),
    )
    .unwrap();
    let tokens = |arguments: &[&str]| {
        let mut command = xtask();
        command.args(["kafka", "tool", "delegation-tokens"]).args(arguments);
        command.args(["--bootstrap-server", &secured().secured(SaslSsl), "--command-config"]);
        run(command.arg(&config), "")
    };
    let made = tokens(&["--create", "--max-life-time-period", "-1"]);
    let line = made
        .lines()
        .find(|line| line.contains("User:admin"))
        .unwrap_or_else(|| panic!("{made}"));
    let mut words = line.split_whitespace();
    let (id, hmac) = (words.next().unwrap(), words.next().unwrap());
    // The controller makes the token, and the broker learns of it a moment later: a log-in before that is refused.
    let is_known = (0..20).any(|_| tokens(&["--describe", "--owner-principal", "User:admin"]).contains(id));
    assert!(is_known, "the broker does not know its token {id}");
    let options = format!("username=\"{id}\" password=\"{hmac}\" tokenauth=\"true\"");
    let jaas = jaas("scram.ScramLoginModule", &options);
    let settings = with(
        of(SaslSsl),
        &[("sasl.mechanism", "SCRAM-SHA-256"), ("sasl.jaas.config", &jaas)],
    );
    round_trip(&settings, "delegation-token").await;
}

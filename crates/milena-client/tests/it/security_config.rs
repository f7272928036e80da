//! The keys of TLS and SASL: which combinations are accepted, and what the errors of the others say.

use std::{collections::BTreeMap, fs, sync::Arc};

use milena_client::{
    auth::{Token, TokenError},
    config::{ConfigMap, ConsumerConfig, ProducerConfig, SecurityProtocol, set_token_provider},
};

/// The author's own settings, and a server.
fn map(settings: &[(&str, &str)]) -> ConfigMap {
    let mut map = ConfigMap::from([("bootstrap.servers", "b-1.demo.kafka.eu-west-1.amazonaws.com:9098")]);
    map.extend(settings.iter().copied());
    map
}

fn resolve(settings: &[(&str, &str)]) -> Result<ProducerConfig, String> {
    ProducerConfig::resolve(&map(settings)).map_err(|errors| errors.to_string())
}

fn error(settings: &[(&str, &str)]) -> String {
    resolve(settings).unwrap_err()
}

const SASL: (&str, &str) = ("security.protocol", "SASL_PLAINTEXT");
const PLAIN: (&str, &str) = ("sasl.mechanism", "PLAIN");
const OAUTH: (&str, &str) = ("sasl.mechanism", "OAUTHBEARER");
const URL: &str = "sasl.oauthbearer.token.endpoint.url";

#[test]
fn the_protocol_is_read_in_any_case() {
    for (text, protocol) in [
        ("plaintext", SecurityProtocol::Plaintext),
        ("Ssl", SecurityProtocol::Ssl),
        ("SSL", SecurityProtocol::Ssl),
    ] {
        let config = resolve(&[("security.protocol", text)]).unwrap();
        assert_eq!(config.security.protocol, protocol, "{text}");
    }
    let sasl = resolve(&[
        ("security.protocol", "sasl_ssl"),
        PLAIN,
        ("sasl.username", "u"),
        ("sasl.password", "p"),
    ]);
    assert_eq!(sasl.unwrap().security.protocol, SecurityProtocol::SaslSsl);
}

#[test]
fn a_mechanism_must_be_chosen_and_kerberos_is_refused() {
    let chosen = error(&[SASL, ("sasl.username", "u")]);
    assert!(
        chosen.contains("sasl.username is set, but sasl.mechanism is not, and its default is GSSAPI (Kerberos)"),
        "{chosen}"
    );
    let refused = error(&[SASL, ("sasl.mechanism", "GSSAPI")]);
    assert_eq!(
        refused,
        "sasl.mechanism (code) cannot be used: Kerberos (GSSAPI) is not supported; use SCRAM-SHA-512, OAUTHBEARER, PLAIN or \
         a client certificate"
    );
    let module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;";
    let refused = error(&[SASL, PLAIN, ("sasl.jaas.config", module)]);
    assert!(
        refused.starts_with("sasl.jaas.config (code) cannot be used: Kerberos"),
        "{refused}"
    );
    let unknown = error(&[SASL, ("sasl.mechanism", "SCRAM-SHA-1")]);
    assert!(
        unknown.contains("it must be one of gssapi, plain, scram-sha-256"),
        "{unknown}"
    );
}

#[test]
fn credentials_come_from_jaas_or_from_librdkafkas_keys() {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password='p';";
    let by_jaas = resolve(&[SASL, PLAIN, ("client.id", "c"), ("sasl.jaas.config", plain)]).unwrap();
    let keys = [SASL, ("sasl.mechanisms", "plain"), ("client.id", "c")];
    let by_keys = resolve(&[&keys[..], &[("sasl.username", "u"), ("sasl.password", "p")]].concat()).unwrap();
    assert_eq!(by_jaas.security, by_keys.security);
    let both = error(&[SASL, PLAIN, ("sasl.jaas.config", plain), ("sasl.username", "u")]);
    assert!(both.contains("both give the credentials; remove one of them"), "{both}");
    let missing = error(&[SASL, PLAIN, ("sasl.username", "u")]);
    assert!(missing.contains("conflicts with sasl.password="), "{missing}");
    let missing = error(&[
        SASL,
        PLAIN,
        ("sasl.jaas.config", "a.PlainLoginModule required username=\"u\";"),
    ]);
    assert_eq!(
        missing,
        "sasl.jaas.config (code) cannot be used: it has no option password"
    );
    let other = error(&[SASL, OAUTH, ("sasl.jaas.config", plain)]);
    assert!(
        other.contains("PlainLoginModule does not belong to sasl.mechanism=OAUTHBEARER"),
        "{other}"
    );
    let broken = error(&[
        SASL,
        PLAIN,
        ("sasl.jaas.config", "a.PlainLoginModule required username=\"hunter2\""),
    ]);
    assert!(
        broken.starts_with("sasl.jaas.config (code) cannot be used: "),
        "{broken}"
    );
    assert!(!broken.contains("hunter2"), "{broken}");
}

#[test]
fn secrets_are_shown_nowhere() {
    let secrets = [
        SASL,
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("sasl.username", "u"),
        ("sasl.password", "hunter2"),
    ];
    let config = resolve(&secrets).unwrap();
    let settings: Vec<String> = config.settings().iter().map(ToString::to_string).collect();
    let text = format!("{config:?}{settings:?}{:?}", config.notes);
    assert!(!text.contains("hunter2"), "{text}");
    assert!(
        settings.contains(&"sasl.password=(hidden) (code)".to_owned()),
        "{settings:?}"
    );
}

#[test]
fn unused_credentials_are_noted() {
    let config = resolve(&[PLAIN, ("sasl.password", "p"), ("ssl.truststore.location", "/ca.pem")]).unwrap();
    let notes: Vec<String> = config.notes.iter().map(ToString::to_string).collect();
    let note =
        "sasl.password (code) has no effect: security.protocol is without SASL; set it to SASL_SSL or SASL_PLAINTEXT";
    assert!(notes.contains(&note.to_owned()), "{notes:?}");
    assert!(
        notes.iter().any(|note| note.starts_with("ssl.truststore.location")),
        "{notes:?}"
    );
    let java = resolve(&[("ssl.provider", "BC"), ("ssl.keymanager.algorithm", "PKIX")]).unwrap();
    assert_eq!(java.notes.len(), 2, "{:?}", java.notes);
}

#[test]
fn errors_about_files_name_the_key() {
    let tls = ("security.protocol", "SSL");
    for (key, value) in [
        ("ssl.truststore.location", "/no/such/file"),
        ("ssl.keystore.location", "/no/such/file"),
        ("ssl.truststore.certificates", "garbage"),
        ("ssl.crl.location", "/no/such/file"),
    ] {
        let error = error(&[tls, (key, value)]);
        assert!(error.starts_with(&format!("{key} (code) cannot be used: ")), "{error}");
    }
    let alone = error(&[tls, ("ssl.keystore.key", "x")]);
    assert!(alone.contains("a private key needs its certificate"), "{alone}");
    let old = error(&[tls, ("ssl.enabled.protocols", "TLSv1.1")]);
    assert!(old.contains("TLSv1.1"), "{old}");
    let suite = error(&[tls, ("ssl.cipher.suites", "TLS_RSA_WITH_AES_128_CBC_SHA")]);
    assert!(suite.contains("TLS_RSA_WITH_AES_128_CBC_SHA"), "{suite}");
    resolve(&[
        tls,
        (
            "ssl.cipher.suites",
            "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
    ])
    .unwrap();
    resolve(&[
        tls,
        ("ssl.protocol", "TLSv1.2"),
        ("ssl.endpoint.identification.algorithm", ""),
    ])
    .unwrap();
    resolve(&[tls, ("ssl.ca.location", "probe"), ("ssl.keystore.type", "PEM")]).unwrap();
}

#[test]
fn references_are_replaced_and_shown_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secrets.properties");
    fs::write(&file, "kafka.user=alice\nkafka.password=hunter2\n").unwrap();
    let reference = |key: &str| format!("${{file:{}:{key}}}", file.display());
    let (user, password) = (reference("kafka.user"), reference("kafka.password"));
    let config = resolve(&[
        SASL,
        PLAIN,
        ("client.id", "c"),
        ("sasl.username", &user),
        ("sasl.password", &password),
    ]);
    let config = config.unwrap();
    let plain = resolve(&[
        SASL,
        PLAIN,
        ("client.id", "c"),
        ("sasl.username", "alice"),
        ("sasl.password", "hunter2"),
    ]);
    assert_eq!(config.security, plain.unwrap().security);
    let shown: BTreeMap<&str, &str> = config
        .settings()
        .iter()
        .map(|setting| (setting.key.as_str(), setting.value.as_str()))
        .collect();
    assert_eq!(
        (shown["sasl.username"], shown["sasl.password"]),
        (user.as_str(), password.as_str())
    );
    let (missing, other) = (reference("none"), reference("nothing"));
    let errors = error(&[("client.id", &missing), ("transactional.id", &other)]);
    let keys: Vec<&str> = errors.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(keys, ["client.id", "transactional.id"], "{errors}");
}

#[test]
fn declared_providers_have_their_own_names() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("name"), "declared").unwrap();
    let reference = format!("${{mounted:{}:name}}", dir.path().display());
    let declared = [
        ("client.id", reference.as_str()),
        ("config.providers", "mounted"),
        (
            "config.providers.mounted.class",
            "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        ),
    ];
    assert_eq!(resolve(&declared).unwrap().client_id, "declared");
    let unknown = error(&[
        ("config.providers", "x"),
        ("config.providers.x.class", "com.example.Vault"),
    ]);
    assert!(
        unknown.starts_with("config.providers.x.class (code) cannot be used: "),
        "{unknown}"
    );
}

#[test]
fn every_source_of_tokens_is_checked() {
    let none = error(&[SASL, OAUTH]);
    assert!(
        none.contains("OAUTHBEARER has no source of tokens; set sasl.oauthbearer.token"),
        "{none}"
    );
    let method = error(&[SASL, OAUTH, ("sasl.oauthbearer.method", "oidc")]);
    assert!(
        method.starts_with("sasl.oauthbearer.method (code) cannot be used: oidc needs "),
        "{method}"
    );
    resolve(&[SASL, OAUTH, (URL, "file:///var/run/token")]).unwrap();
    let secret = [
        SASL,
        OAUTH,
        ("sasl.oauthbearer.client.id", "me"),
        ("sasl.oauthbearer.client.secret", "hunter2"),
    ];
    resolve(&[&secret[..], &[(URL, "https://issuer/token")]].concat()).unwrap();
    let url = error(&[&secret[..], &[(URL, "ftp://issuer/token")]].concat());
    assert!(url.starts_with(&format!("{URL} (code) cannot be used: ")), "{url}");
    let refused = error(&[SASL, OAUTH, (URL, "http://issuer/token")]);
    assert!(refused.contains("needs the client's id and secret"), "{refused}");
    let assertion = error(&[
        SASL,
        OAUTH,
        (URL, "http://issuer/token"),
        ("sasl.oauthbearer.assertion.claim.iss", "me"),
    ]);
    assert!(
        assertion.contains("sasl.oauthbearer.assertion.private.key.file"),
        "{assertion}"
    );
    let bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let grant = error(
        &[
            &secret[..],
            &[(URL, "http://issuer/t"), ("sasl.oauthbearer.grant.type", bearer)],
        ]
        .concat(),
    );
    assert!(grant.contains("the grant needs an assertion"), "{grant}");
    let unsecured = "a.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"alice\";";
    resolve(&[SASL, OAUTH, ("sasl.jaas.config", unsecured)]).unwrap();
    let module = "a.OAuthBearerLoginModule required unsecuredLoginStringClaim_scope=\"x\";";
    let refused = error(&[SASL, OAUTH, ("sasl.jaas.config", module)]);
    assert!(
        refused.contains("the token has no principal; set its claim sub"),
        "{refused}"
    );
}

#[test]
fn the_region_of_amazon_msk_is_in_its_host_names() {
    resolve(&[
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "AWS_MSK_IAM"),
    ])
    .unwrap();
    // As Amazon's own documentation has it for Java.
    resolve(&[
        SASL,
        ("sasl.mechanism", "AWS_MSK_IAM"),
        (
            "sasl.jaas.config",
            "software.amazon.msk.auth.iam.IAMLoginModule required;",
        ),
        (
            "sasl.client.callback.handler.class",
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        ),
    ])
    .unwrap();
}

#[test]
fn a_provider_in_code_goes_with_the_map() {
    let mut map = map(&[SASL, OAUTH]);
    let provider = || async { Ok::<_, TokenError>(Token::new("token", i64::MAX)) };
    set_token_provider(&mut map, Arc::new(provider));
    ProducerConfig::resolve(&map).unwrap();
    let mut merged = ConfigMap::new();
    merged.merge(map.clone());
    ConsumerConfig::resolve(&merged).unwrap();
    let built = ConsumerConfig::builder("h:1")
        .set("security.protocol", "SASL_PLAINTEXT")
        .set("sasl.mechanism", "OAUTHBEARER")
        .token_provider(provider);
    built.build().unwrap();
}

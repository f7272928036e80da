//! The secured listeners of a test cluster: TLS, SASL, their users, and the authorizer.

use std::path::Path;

/// Distance of a listener's port from the plain one of the same broker.
const SASL_PLAINTEXT_DISTANCE: u16 = 100;
const SSL_DISTANCE: u16 = 300;
const SASL_SSL_DISTANCE: u16 = 400;
const MTLS_DISTANCE: u16 = 500;

/// The users of every mechanism; the password of each is `<name>-secret`. The first one is a super user.
pub(super) const USERS: [&str; 3] = ["admin", "alice", "bob"];
const SCRAM: [&str; 2] = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
const LISTENERS: [(&str, u16); 4] = [
    ("SASL_PLAINTEXT", SASL_PLAINTEXT_DISTANCE),
    ("SSL", SSL_DISTANCE),
    ("SASL_SSL", SASL_SSL_DISTANCE),
    ("MTLS", MTLS_DISTANCE),
];

/// The addresses of the secured listeners of a broker whose plain port is `port`.
pub(super) fn listeners(port: u16) -> Vec<String> {
    let address = |(name, distance)| format!("{name}://127.0.0.1:{}", port + distance);
    LISTENERS.into_iter().map(address).collect()
}

/// The arguments that make the SCRAM credentials of the users when storage is formatted.
pub(super) fn format_args() -> Vec<String> {
    let users = USERS
        .iter()
        .flat_map(|user| SCRAM.iter().map(move |mechanism| (user, mechanism)));
    users
        .flat_map(|(user, mechanism)| {
            let credentials = format!("{mechanism}=[name={user},password={user}-secret]");
            ["--add-scram".to_owned(), credentials]
        })
        .collect()
}

/// The configuration of the listeners. `tls` is the directory of the certificates.
pub(super) fn lines(tls: &Path) -> Vec<String> {
    let mut lines = vec![
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER".to_owned(),
        "ssl.keystore.type=PEM".to_owned(),
        format!("ssl.keystore.location={}", tls.join("server.pem").display()),
        "ssl.truststore.type=PEM".to_owned(),
        format!("ssl.truststore.location={}", tls.join("ca.pem").display()),
        "listener.name.mtls.ssl.client.auth=required".to_owned(),
        // A certificate and a password of the same user are the same principal.
        "listener.name.mtls.ssl.principal.mapping.rules=RULE:^CN=([^,]*).*$/$1/,DEFAULT".to_owned(),
        "delegation.token.secret.key=milena-tests".to_owned(),
    ];
    for listener in ["sasl_plaintext", "sasl_ssl"] {
        lines.extend(jaas_lines(listener));
    }
    lines
}

fn jaas_lines(listener: &str) -> Vec<String> {
    let line = |mechanism: &str, module: &str, options: &str| {
        let module = format!("org.apache.kafka.common.security.{module}");
        format!("listener.name.{listener}.{mechanism}.sasl.jaas.config={module} required{options};")
    };
    let users: String = USERS
        .iter()
        .map(|user| format!(" user_{user}=\"{user}-secret\""))
        .collect();
    vec![
        line("plain", "plain.PlainLoginModule", &users),
        line("scram-sha-256", "scram.ScramLoginModule", ""),
        line("scram-sha-512", "scram.ScramLoginModule", ""),
        // Tokens without a signature.
        line(
            "oauthbearer",
            "oauthbearer.OAuthBearerLoginModule",
            " unsecuredLoginStringClaim_sub=\"broker\"",
        ),
    ]
}

/// The configuration of the authorizer. The plain listener, which the brokers use among themselves, may do everything.
pub(super) fn authorizer_lines() -> Vec<String> {
    vec![
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        format!("super.users=User:ANONYMOUS;User:{}", USERS[0]),
        "allow.everyone.if.no.acl.found=false".to_owned(),
    ]
}

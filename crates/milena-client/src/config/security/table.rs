//! Keys of TLS and SASL, which all clients share. Types and defaults are Kafka's; `tests/it/config_facts.rs` compares them.

use milena_config::{
    Alias,
    Allowed::{Between, OneOf, OneOfInAnyCase},
    Definition, definitions,
};

/// Sorted by name.
pub(in crate::config) const SECURITY_CONFIGS: &[Definition] = definitions! {
    "sasl.client.callback.handler.class" Class, medium, default_or(&[AWS_CLIENT_HANDLER], CALLBACKS_IN_CODE),
        about("Java class of the SASL client callback handler.");
    "sasl.jaas.config" Password, medium,
        about("Credentials in Java's form: PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule with its options.");
    "sasl.kerberos.kinit.cmd" String = "/usr/bin/kinit", default_only(NO_KERBEROS),
        about("Command that gets a Kerberos ticket.");
    "sasl.kerberos.min.time.before.relogin" Long = "60000", default_only(NO_KERBEROS),
        about("Minimum time between two Kerberos logins, in milliseconds.");
    "sasl.kerberos.service.name" String, medium, default_only(NO_KERBEROS),
        about("Kerberos principal of the brokers.");
    "sasl.kerberos.ticket.renew.jitter" Double = "0.05", default_only(NO_KERBEROS),
        about("Jitter of the renewal time of a Kerberos ticket.");
    "sasl.kerberos.ticket.renew.window.factor" Double = "0.8", default_only(NO_KERBEROS),
        about("Share of the lifetime of a Kerberos ticket after which it is renewed.");
    "sasl.login.callback.handler.class" Class, medium, default_or(LOGIN_HANDLERS, CALLBACKS_IN_CODE),
        about("Java class of the login callback handler.");
    "sasl.login.class" Class, medium, default_only(CALLBACKS_IN_CODE),
        about("Java class of the login.");
    "sasl.login.connect.timeout.ms" Int, allowed(Between(1, i32::MAX as i64)),
        about("Timeout of connections to the token endpoint; 10 seconds if it is not set.");
    "sasl.login.read.timeout.ms" Int, allowed(Between(1, i32::MAX as i64)),
        about("Timeout of responses of the token endpoint; 10 seconds if it is not set.");
    "sasl.login.refresh.buffer.seconds" Short = "300", allowed(Between(0, 3600)),
        about("Time before its expiry at which a token is replaced at the latest.");
    "sasl.login.refresh.min.period.seconds" Short = "60", allowed(Between(0, 900)),
        about("Minimum time for which a token is kept.");
    "sasl.login.refresh.window.factor" Double = "0.8", allowed(super::WINDOW_FACTOR),
        about("Share of the lifetime of a token after which it is replaced.");
    "sasl.login.refresh.window.jitter" Double = "0.05", allowed(super::WINDOW_JITTER),
        about("Largest random share that is added to that.");
    "sasl.login.retry.backoff.max.ms" Long = "10000", at_least(0),
        about("Time for all attempts to get one token.");
    "sasl.login.retry.backoff.ms" Long = "100", at_least(0),
        about("Backoff after the first failed attempt to get a token. It doubles with each attempt.");
    "sasl.mechanism" String = "GSSAPI", medium, allowed(OneOfInAnyCase(MECHANISMS)),
        alias(&[Alias::same("sasl.mechanisms")]),
        about("SASL mechanism. Required with security.protocol=SASL_SSL and SASL_PLAINTEXT, because Kerberos (GSSAPI) is not \
            supported. AWS_MSK_IAM signs OAUTHBEARER tokens for Amazon MSK with the credentials of the environment.");
    "sasl.oauthbearer.assertion.algorithm" String = "RS256", medium, allowed(OneOfInAnyCase(&["RS256", "ES256"])),
        about("Signature algorithm of an assertion.");
    "sasl.oauthbearer.assertion.claim.aud" String, medium,
        about("Audience claim of an assertion.");
    "sasl.oauthbearer.assertion.claim.exp.seconds" Int = "300", allowed(Between(0, 86_400)),
        about("Validity of an assertion.");
    "sasl.oauthbearer.assertion.claim.iss" String, medium,
        about("Issuer claim of an assertion.");
    "sasl.oauthbearer.assertion.claim.jti.include" Boolean = "false", medium,
        about("Whether an assertion has a JWT id claim.");
    "sasl.oauthbearer.assertion.claim.nbf.seconds" Int = "60", allowed(Between(0, 3_600)),
        about("Time before its creation from which an assertion is valid.");
    "sasl.oauthbearer.assertion.claim.sub" String, medium,
        about("Subject claim of an assertion.");
    "sasl.oauthbearer.assertion.file" String, medium,
        about("File with a signed assertion, read for each token request. Takes precedence over a private key.");
    "sasl.oauthbearer.assertion.private.key.file" String, medium,
        about("File with the private key that signs assertions, in PEM.");
    "sasl.oauthbearer.assertion.private.key.passphrase" Password, medium,
        about("Passphrase of that private key.");
    "sasl.oauthbearer.assertion.template.file" String, medium,
        alias(&[Alias::same("sasl.oauthbearer.assertion.jwt.template.file")]),
        about("JSON file with the objects header and payload, to which the other claims are added.");
    "sasl.oauthbearer.client.credentials.client.id" String, medium,
        alias(&[Alias::same("sasl.oauthbearer.client.id")]),
        about("Client id for token requests.");
    "sasl.oauthbearer.client.credentials.client.secret" Password, medium,
        alias(&[Alias::same("sasl.oauthbearer.client.secret")]),
        about("Client secret for token requests.");
    "sasl.oauthbearer.clock.skew.seconds" Int = "30", default_only(BROKERS_VERIFY),
        about("Allowed clock skew.");
    "sasl.oauthbearer.expected.audience" List = "", high, default_only(BROKERS_VERIFY),
        about("Expected audience of tokens.");
    "sasl.oauthbearer.expected.issuer" String, high, default_only(BROKERS_VERIFY),
        about("Expected issuer of tokens.");
    "sasl.oauthbearer.header.urlencode" Boolean = "false",
        about("Whether the client id and secret are URL-encoded in the Authorization header, as RFC 6749 asks for.");
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" Long = "3600000", default_only(BROKERS_VERIFY),
        about("Interval between requests for the provider's keys (JWKS).");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" Long = "10000", default_only(BROKERS_VERIFY),
        about("Maximum backoff between attempts to fetch them.");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" Long = "100", default_only(BROKERS_VERIFY),
        about("Initial backoff between attempts to fetch them.");
    "sasl.oauthbearer.jwks.endpoint.url" String, medium, default_only(BROKERS_VERIFY),
        about("URL of the provider's keys (JWKS).");
    "sasl.oauthbearer.jwt.retriever.class" Class = "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        medium, allowed(OneOf(RETRIEVERS)),
        about("Where tokens come from. The default goes by sasl.oauthbearer.token.endpoint.url.");
    "sasl.oauthbearer.jwt.validator.class" Class = "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        medium, default_or(&["org.apache.kafka.common.security.oauthbearer.ClientJwtValidator"], BROKERS_VERIFY),
        about("Java class that validates tokens.");
    "sasl.oauthbearer.scope" String, medium,
        about("Scope of token requests.");
    "sasl.oauthbearer.scope.claim.name" String = "scope",
        about("Name of the claim with the scope.");
    "sasl.oauthbearer.sub.claim.name" String = "sub",
        about("Name of the claim with the subject.");
    "sasl.oauthbearer.token.endpoint.url" String, medium,
        about("URL of the token endpoint: http, https, or file for a JWT that another program keeps up to date.");
    "ssl.cipher.suites" List = "",
        about("Cipher suites, by Java's or OpenSSL's names. All if it is empty.");
    "ssl.enabled.protocols" List = "TLSv1.2,TLSv1.3", medium,
        about("Enabled TLS versions.");
    "ssl.endpoint.identification.algorithm" String = "https", allowed(OneOfInAnyCase(&["https", "", "none"])),
        about("https: a broker's certificate must have the broker's host name. Empty or none: it need not.");
    "ssl.engine.factory.class" Class, default_only(NO_CLASSES),
        about("Java class that creates TLS engines.");
    "ssl.key.password" Password, high,
        about("Password of the client's private key.");
    "ssl.keymanager.algorithm" String = "SunX509", ignored(JAVA_ONLY),
        about("Algorithm of Java's key manager.");
    "ssl.keystore.certificate.chain" Password, high, alias(&[Alias::same("ssl.certificate.pem")]),
        about("Certificate chain of the client, in PEM.");
    "ssl.keystore.key" Password, high, alias(&[Alias::same("ssl.key.pem")]),
        about("Private key of the client, in PEM.");
    "ssl.keystore.location" String, high,
        about("File with the private key and certificate chain of the client: PEM, PKCS#12 or JKS, read again when it changes.");
    "ssl.keystore.password" Password, high,
        about("Password of that file. Not for PEM.");
    "ssl.keystore.type" String = "JKS", medium, default_or(STORE_TYPES, UNKNOWN_STORE),
        about("Format of that file. It is recognized by its content, whatever this says.");
    "ssl.protocol" String = "TLSv1.3", medium, allowed(OneOf(&["TLSv1.3", "TLSv1.2", "TLS"])),
        about("Newest TLS version that is used.");
    "ssl.provider" String, medium, ignored(JAVA_ONLY),
        about("Java's TLS provider.");
    "ssl.secure.random.implementation" String, ignored(JAVA_ONLY),
        about("Java's random number generator.");
    "ssl.trustmanager.algorithm" String = "PKIX", ignored(JAVA_ONLY),
        about("Algorithm of Java's trust manager.");
    "ssl.truststore.certificates" Password, high, alias(&[Alias::same("ssl.ca.pem")]),
        about("Trusted certificates, in PEM.");
    "ssl.truststore.location" String, high, alias(&[Alias::same("ssl.ca.location")]),
        about("File with the trusted certificates, or a directory of PEM files, read again when it changes. Without it the \
            certificates of the operating system are trusted.");
    "ssl.truststore.password" Password, high,
        about("Password of that file. Not needed to read certificates, and not for PEM.");
    "ssl.truststore.type" String = "JKS", medium, default_or(STORE_TYPES, UNKNOWN_STORE),
        about("Format of that file. It is recognized by its content, whatever this says.");
};

pub(super) const MECHANISMS: &[&str] = &[
    "GSSAPI",
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "AWS_MSK_IAM",
];
pub(super) const FILE_RETRIEVER: &str = "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever";
pub(super) const CREDENTIALS_RETRIEVER: &str =
    "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever";
pub(super) const BEARER_RETRIEVER: &str = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever";
const RETRIEVERS: &[&str] = &[
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    FILE_RETRIEVER,
    CREDENTIALS_RETRIEVER,
    BEARER_RETRIEVER,
];
/// Handlers whose work the client does by itself.
const LOGIN_HANDLERS: &[&str] = &[
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
];
const AWS_CLIENT_HANDLER: &str = "software.amazon.msk.auth.iam.IAMClientCallbackHandler";
const STORE_TYPES: &[&str] = &["PKCS12", "PEM", "jks", "pkcs12", "pem"];

pub(super) const NO_KERBEROS: &str = "Kerberos (GSSAPI) is not supported; use SCRAM-SHA-512, OAUTHBEARER, PLAIN or a \
    client certificate";
const CALLBACKS_IN_CODE: &str = "Java classes cannot be loaded; tokens from code come from a TokenProvider";
const BROKERS_VERIFY: &str = "only brokers verify tokens; remove it";
const NO_CLASSES: &str = "Java classes cannot be loaded";
const JAVA_ONLY: &str = "it selects a part of Java's own TLS";
const UNKNOWN_STORE: &str = "the formats are JKS, PKCS12 and PEM";

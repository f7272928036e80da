//! Keys of TLS and SASL, which all clients share. Types and defaults are Kafka's; `tests/it/config_facts.rs` compares them.

use milena_config::{Definition, definitions};

use super::common_table::NO_SECURITY;

/// Sorted by name.
pub(super) const SECURITY_CONFIGS: &[Definition] = definitions! {
    "sasl.client.callback.handler.class" Class, medium, default_only(NO_SECURITY),
        about("Java class of the SASL client callback handler.");
    "sasl.jaas.config" Password, medium, default_only(NO_SECURITY),
        about("JAAS login configuration of SASL.");
    "sasl.kerberos.kinit.cmd" String = "/usr/bin/kinit", default_only(NO_SECURITY),
        about("Command that gets a Kerberos ticket.");
    "sasl.kerberos.min.time.before.relogin" Long = "60000", default_only(NO_SECURITY),
        about("Minimum time between two Kerberos logins, in milliseconds.");
    "sasl.kerberos.service.name" String, medium, default_only(NO_SECURITY),
        about("Kerberos principal of the brokers.");
    "sasl.kerberos.ticket.renew.jitter" Double = "0.05", default_only(NO_SECURITY),
        about("Jitter of the renewal time of a Kerberos ticket.");
    "sasl.kerberos.ticket.renew.window.factor" Double = "0.8", default_only(NO_SECURITY),
        about("Share of the lifetime of a Kerberos ticket after which it is renewed.");
    "sasl.login.callback.handler.class" Class, medium, default_only(NO_SECURITY),
        about("Java class of the login callback handler.");
    "sasl.login.class" Class, medium, default_only(NO_SECURITY),
        about("Java class of the login.");
    "sasl.login.connect.timeout.ms" Int, default_only(NO_SECURITY),
        about("Timeout of connections to the token provider.");
    "sasl.login.read.timeout.ms" Int, default_only(NO_SECURITY),
        about("Timeout of responses of the token provider.");
    "sasl.login.refresh.buffer.seconds" Short = "300", default_only(NO_SECURITY),
        about("Time before its expiry at which a token is renewed at the latest.");
    "sasl.login.refresh.min.period.seconds" Short = "60", default_only(NO_SECURITY),
        about("Minimum time for which a token is kept.");
    "sasl.login.refresh.window.factor" Double = "0.8", default_only(NO_SECURITY),
        about("Share of the lifetime of a token after which it is renewed.");
    "sasl.login.refresh.window.jitter" Double = "0.05", default_only(NO_SECURITY),
        about("Jitter of the renewal time of a token.");
    "sasl.login.retry.backoff.max.ms" Long = "10000", default_only(NO_SECURITY),
        about("Maximum backoff between attempts to get a token.");
    "sasl.login.retry.backoff.ms" Long = "100", default_only(NO_SECURITY),
        about("Initial backoff between attempts to get a token.");
    "sasl.mechanism" String = "GSSAPI", medium, default_only(NO_SECURITY),
        about("SASL mechanism.");
    "sasl.oauthbearer.assertion.algorithm" String = "RS256", medium, default_only(NO_SECURITY),
        about("Signature algorithm of an assertion.");
    "sasl.oauthbearer.assertion.claim.aud" String, medium, default_only(NO_SECURITY),
        about("Audience claim of an assertion.");
    "sasl.oauthbearer.assertion.claim.exp.seconds" Int = "300", default_only(NO_SECURITY),
        about("Validity of an assertion.");
    "sasl.oauthbearer.assertion.claim.iss" String, medium, default_only(NO_SECURITY),
        about("Issuer claim of an assertion.");
    "sasl.oauthbearer.assertion.claim.jti.include" Boolean = "false", medium, default_only(NO_SECURITY),
        about("Whether an assertion has a JWT id claim.");
    "sasl.oauthbearer.assertion.claim.nbf.seconds" Int = "60", default_only(NO_SECURITY),
        about("Time before its creation from which an assertion is valid.");
    "sasl.oauthbearer.assertion.claim.sub" String, medium, default_only(NO_SECURITY),
        about("Subject claim of an assertion.");
    "sasl.oauthbearer.assertion.file" String, medium, default_only(NO_SECURITY),
        about("File with an assertion.");
    "sasl.oauthbearer.assertion.private.key.file" String, medium, default_only(NO_SECURITY),
        about("File with the private key that signs assertions.");
    "sasl.oauthbearer.assertion.private.key.passphrase" Password, medium, default_only(NO_SECURITY),
        about("Passphrase of that private key.");
    "sasl.oauthbearer.assertion.template.file" String, medium, default_only(NO_SECURITY),
        about("File with a template of assertion claims.");
    "sasl.oauthbearer.client.credentials.client.id" String, medium, default_only(NO_SECURITY),
        about("Client id for token requests.");
    "sasl.oauthbearer.client.credentials.client.secret" Password, medium, default_only(NO_SECURITY),
        about("Client secret for token requests.");
    "sasl.oauthbearer.clock.skew.seconds" Int = "30", default_only(NO_SECURITY),
        about("Allowed clock skew.");
    "sasl.oauthbearer.expected.audience" List = "", high, default_only(NO_SECURITY),
        about("Expected audience of tokens.");
    "sasl.oauthbearer.expected.issuer" String, high, default_only(NO_SECURITY),
        about("Expected issuer of tokens.");
    "sasl.oauthbearer.header.urlencode" Boolean = "false", default_only(NO_SECURITY),
        about("Whether the client id and secret are URL-encoded.");
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" Long = "3600000", default_only(NO_SECURITY),
        about("Interval between requests for the provider's keys (JWKS).");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" Long = "10000", default_only(NO_SECURITY),
        about("Maximum backoff between attempts to fetch them.");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" Long = "100", default_only(NO_SECURITY),
        about("Initial backoff between attempts to fetch them.");
    "sasl.oauthbearer.jwks.endpoint.url" String, medium, default_only(NO_SECURITY),
        about("URL of the provider's keys (JWKS).");
    "sasl.oauthbearer.jwt.retriever.class" Class = "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        medium, default_only(NO_SECURITY),
        about("Java class that gets tokens.");
    "sasl.oauthbearer.jwt.validator.class" Class = "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        medium, default_only(NO_SECURITY),
        about("Java class that validates tokens.");
    "sasl.oauthbearer.scope" String, medium, default_only(NO_SECURITY),
        about("Scope of token requests.");
    "sasl.oauthbearer.scope.claim.name" String = "scope", default_only(NO_SECURITY),
        about("Name of the claim with the scope.");
    "sasl.oauthbearer.sub.claim.name" String = "sub", default_only(NO_SECURITY),
        about("Name of the claim with the subject.");
    "sasl.oauthbearer.token.endpoint.url" String, medium, default_only(NO_SECURITY),
        about("URL of the token endpoint.");
    "ssl.cipher.suites" List = "", default_only(NO_SECURITY),
        about("Cipher suites.");
    "ssl.enabled.protocols" List = "TLSv1.2,TLSv1.3", medium, default_only(NO_SECURITY),
        about("Enabled TLS versions.");
    "ssl.endpoint.identification.algorithm" String = "https", default_only(NO_SECURITY),
        about("Algorithm that verifies the host name of a broker.");
    "ssl.engine.factory.class" Class, default_only(NO_SECURITY),
        about("Java class that creates TLS engines.");
    "ssl.key.password" Password, high, default_only(NO_SECURITY),
        about("Password of the client's private key.");
    "ssl.keymanager.algorithm" String = "SunX509", default_only(NO_SECURITY),
        about("Algorithm of Java's key manager.");
    "ssl.keystore.certificate.chain" Password, high, default_only(NO_SECURITY),
        about("Certificate chain of the client, in PEM.");
    "ssl.keystore.key" Password, high, default_only(NO_SECURITY),
        about("Private key of the client, in PEM.");
    "ssl.keystore.location" String, high, default_only(NO_SECURITY),
        about("File with the private key and certificate chain of the client.");
    "ssl.keystore.password" Password, high, default_only(NO_SECURITY),
        about("Password of that file.");
    "ssl.keystore.type" String = "JKS", medium, default_only(NO_SECURITY),
        about("Format of that file.");
    "ssl.protocol" String = "TLSv1.3", medium, default_only(NO_SECURITY),
        about("Preferred TLS version.");
    "ssl.provider" String, medium, default_only(NO_SECURITY),
        about("Java's TLS provider.");
    "ssl.secure.random.implementation" String, default_only(NO_SECURITY),
        about("Java's random number generator.");
    "ssl.trustmanager.algorithm" String = "PKIX", default_only(NO_SECURITY),
        about("Algorithm of Java's trust manager.");
    "ssl.truststore.certificates" Password, high, default_only(NO_SECURITY),
        about("Trusted certificates, in PEM.");
    "ssl.truststore.location" String, high, default_only(NO_SECURITY),
        about("File with the trusted certificates.");
    "ssl.truststore.password" Password, high, default_only(NO_SECURITY),
        about("Password of that file.");
    "ssl.truststore.type" String = "JKS", medium, default_only(NO_SECURITY),
        about("Format of that file.");
};

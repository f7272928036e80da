//! The consumer's keys of TLS and SASL, by name. Types and defaults are Kafka's; `tests/it/config_facts.rs` compares.

use super::{ConfigType, Definition, consumer_table::NO_SECURITY, definition::definitions};

/// Sorted by name.
pub(super) const SECURITY_CONFIGS: &[Definition] = definitions! {
    "sasl.client.callback.handler.class" Class, medium, default_only(NO_SECURITY),
        about("A Java class that answers SASL's questions.");
    "sasl.jaas.config" Password, medium, default_only(NO_SECURITY),
        about("The login of SASL in the form of JAAS.");
    "sasl.kerberos.kinit.cmd" String = "/usr/bin/kinit", default_only(NO_SECURITY),
        about("The command that gets a Kerberos ticket.");
    "sasl.kerberos.min.time.before.relogin" Long = "60000", default_only(NO_SECURITY),
        about("The shortest time between two Kerberos logins, in milliseconds.");
    "sasl.kerberos.service.name" String, medium, default_only(NO_SECURITY),
        about("The Kerberos principal that brokers run as.");
    "sasl.kerberos.ticket.renew.jitter" Double = "0.05", default_only(NO_SECURITY),
        about("How much chance there is in when a Kerberos ticket is renewed.");
    "sasl.kerberos.ticket.renew.window.factor" Double = "0.8", default_only(NO_SECURITY),
        about("After which part of its life a Kerberos ticket is renewed.");
    "sasl.login.callback.handler.class" Class, medium, default_only(NO_SECURITY),
        about("A Java class that answers questions of the login.");
    "sasl.login.class" Class, medium, default_only(NO_SECURITY),
        about("A Java class that logs in.");
    "sasl.login.connect.timeout.ms" Int, default_only(NO_SECURITY),
        about("How long to wait for a connection to the provider of tokens.");
    "sasl.login.read.timeout.ms" Int, default_only(NO_SECURITY),
        about("How long to wait for an answer of the provider of tokens.");
    "sasl.login.refresh.buffer.seconds" Short = "300", default_only(NO_SECURITY),
        about("How long before its end a token is renewed at the latest.");
    "sasl.login.refresh.min.period.seconds" Short = "60", default_only(NO_SECURITY),
        about("How long a token is kept at least.");
    "sasl.login.refresh.window.factor" Double = "0.8", default_only(NO_SECURITY),
        about("After which part of its life a token is renewed.");
    "sasl.login.refresh.window.jitter" Double = "0.05", default_only(NO_SECURITY),
        about("How much chance there is in when a token is renewed.");
    "sasl.login.retry.backoff.max.ms" Long = "10000", default_only(NO_SECURITY),
        about("The longest pause between two attempts to get a token.");
    "sasl.login.retry.backoff.ms" Long = "100", default_only(NO_SECURITY),
        about("The first pause between two attempts to get a token.");
    "sasl.mechanism" String = "GSSAPI", medium, default_only(NO_SECURITY),
        about("How SASL proves who the client is.");
    "sasl.oauthbearer.assertion.algorithm" String = "RS256", medium, default_only(NO_SECURITY),
        about("How an assertion is signed.");
    "sasl.oauthbearer.assertion.claim.aud" String, medium, default_only(NO_SECURITY),
        about("For whom an assertion is.");
    "sasl.oauthbearer.assertion.claim.exp.seconds" Int = "300", default_only(NO_SECURITY),
        about("How long an assertion is valid.");
    "sasl.oauthbearer.assertion.claim.iss" String, medium, default_only(NO_SECURITY),
        about("Who issues an assertion.");
    "sasl.oauthbearer.assertion.claim.jti.include" Boolean = "false", medium, default_only(NO_SECURITY),
        about("Whether an assertion has an id of its own.");
    "sasl.oauthbearer.assertion.claim.nbf.seconds" Int = "60", default_only(NO_SECURITY),
        about("How long before now an assertion becomes valid.");
    "sasl.oauthbearer.assertion.claim.sub" String, medium, default_only(NO_SECURITY),
        about("About whom an assertion is.");
    "sasl.oauthbearer.assertion.file" String, medium, default_only(NO_SECURITY),
        about("A file with an assertion.");
    "sasl.oauthbearer.assertion.private.key.file" String, medium, default_only(NO_SECURITY),
        about("A file with the key that signs an assertion.");
    "sasl.oauthbearer.assertion.private.key.passphrase" Password, medium, default_only(NO_SECURITY),
        about("The passphrase of that key.");
    "sasl.oauthbearer.assertion.template.file" String, medium, default_only(NO_SECURITY),
        about("A file with claims of an assertion.");
    "sasl.oauthbearer.client.credentials.client.id" String, medium, default_only(NO_SECURITY),
        about("The id that the client asks for a token with.");
    "sasl.oauthbearer.client.credentials.client.secret" Password, medium, default_only(NO_SECURITY),
        about("The secret that the client asks for a token with.");
    "sasl.oauthbearer.clock.skew.seconds" Int = "30", default_only(NO_SECURITY),
        about("How far clocks may differ.");
    "sasl.oauthbearer.expected.audience" List = "", high, default_only(NO_SECURITY),
        about("For whom a token must be.");
    "sasl.oauthbearer.expected.issuer" String, high, default_only(NO_SECURITY),
        about("Who must have issued a token.");
    "sasl.oauthbearer.header.urlencode" Boolean = "false", default_only(NO_SECURITY),
        about("Whether the client's id and secret are encoded as in a URL.");
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" Long = "3600000", default_only(NO_SECURITY),
        about("How often the provider's keys are fetched.");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" Long = "10000", default_only(NO_SECURITY),
        about("The longest pause between two attempts to fetch them.");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" Long = "100", default_only(NO_SECURITY),
        about("The first pause between two attempts to fetch them.");
    "sasl.oauthbearer.jwks.endpoint.url" String, medium, default_only(NO_SECURITY),
        about("Where the provider's keys are.");
    "sasl.oauthbearer.jwt.retriever.class" Class = "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        medium, default_only(NO_SECURITY),
        about("A Java class that gets a token.");
    "sasl.oauthbearer.jwt.validator.class" Class = "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        medium, default_only(NO_SECURITY),
        about("A Java class that checks a token.");
    "sasl.oauthbearer.scope" String, medium, default_only(NO_SECURITY),
        about("What a token is asked for.");
    "sasl.oauthbearer.scope.claim.name" String = "scope", default_only(NO_SECURITY),
        about("The claim that has the scope.");
    "sasl.oauthbearer.sub.claim.name" String = "sub", default_only(NO_SECURITY),
        about("The claim that has the subject.");
    "sasl.oauthbearer.token.endpoint.url" String, medium, default_only(NO_SECURITY),
        about("Where tokens are.");
    "ssl.cipher.suites" List = "", default_only(NO_SECURITY),
        about("The ciphers of TLS.");
    "ssl.enabled.protocols" List = "TLSv1.2,TLSv1.3", medium, default_only(NO_SECURITY),
        about("The versions of TLS that may be used.");
    "ssl.endpoint.identification.algorithm" String = "https", default_only(NO_SECURITY),
        about("How the name of a broker is checked.");
    "ssl.engine.factory.class" Class, default_only(NO_SECURITY),
        about("A Java class that makes TLS engines.");
    "ssl.key.password" Password, high, default_only(NO_SECURITY),
        about("The password of the client's key.");
    "ssl.keymanager.algorithm" String = "SunX509", default_only(NO_SECURITY),
        about("Java's algorithm for keys.");
    "ssl.keystore.certificate.chain" Password, high, default_only(NO_SECURITY),
        about("The client's certificates in PEM.");
    "ssl.keystore.key" Password, high, default_only(NO_SECURITY),
        about("The client's key in PEM.");
    "ssl.keystore.location" String, high, default_only(NO_SECURITY),
        about("A file with the client's key and certificates.");
    "ssl.keystore.password" Password, high, default_only(NO_SECURITY),
        about("The password of that file.");
    "ssl.keystore.type" String = "JKS", medium, default_only(NO_SECURITY),
        about("The form of that file.");
    "ssl.protocol" String = "TLSv1.3", medium, default_only(NO_SECURITY),
        about("The version of TLS that is preferred.");
    "ssl.provider" String, medium, default_only(NO_SECURITY),
        about("Java's provider of TLS.");
    "ssl.secure.random.implementation" String, default_only(NO_SECURITY),
        about("Java's source of random numbers.");
    "ssl.trustmanager.algorithm" String = "PKIX", default_only(NO_SECURITY),
        about("Java's algorithm for trust.");
    "ssl.truststore.certificates" Password, high, default_only(NO_SECURITY),
        about("The certificates that are trusted, in PEM.");
    "ssl.truststore.location" String, high, default_only(NO_SECURITY),
        about("A file with the certificates that are trusted.");
    "ssl.truststore.password" Password, high, default_only(NO_SECURITY),
        about("The password of that file.");
    "ssl.truststore.type" String = "JKS", medium, default_only(NO_SECURITY),
        about("The form of that file.");
};

//! Keys of TLS and SASL that only librdkafka has. Those with an equivalent in Kafka are aliases in `table.rs`.

use milena_config::{Allowed::OneOf, Definition, definitions};

use super::table::NO_KERBEROS;

/// Sorted by name. Defaults are librdkafka's.
pub(in crate::config) const LIBRDKAFKA_SECURITY_CONFIGS: &[Definition] = definitions! {
    "enable.sasl.oauthbearer.unsecure.jwt" Boolean = "false",
        about("Whether tokens without a signature are made from sasl.oauthbearer.config. For tests only.");
    "enable.ssl.certificate.verification" Boolean = "true",
        about("Whether brokers must have a valid certificate. For tests only: without it any server can pose as a broker.");
    "https.ca.location" String,
        about("File or directory with the certificates that are trusted for https URLs of token endpoints.");
    "https.ca.pem" Password,
        about("Certificates that are trusted for https URLs of token endpoints, in PEM.");
    "sasl.kerberos.keytab" String, default_only(NO_KERBEROS), about("Path of the Kerberos keytab.");
    "sasl.kerberos.principal" String = "kafkaclient", default_only(NO_KERBEROS),
        about("Kerberos principal of the client.");
    "sasl.oauthbearer.assertion.private.key.pem" Password,
        about("Private key that signs assertions, in PEM.");
    "sasl.oauthbearer.config" String,
        about("Claims of tokens without a signature: principal, principalClaimName, scope, scopeClaimName, lifeSeconds, \
            extension_NAME, each as name=value, separated by spaces.");
    "sasl.oauthbearer.extensions" String,
        about("SASL extensions that are sent with a token, as name=value, separated by commas.");
    "sasl.oauthbearer.grant.type" String = "client_credentials",
        allowed(OneOf(&["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"])),
        about("Grant of token requests.");
    "sasl.oauthbearer.metadata.authentication.type" String = "none",
        default_only("tokens of Azure's and AWS's instance metadata come from a TokenProvider in code"),
        about("Service of the cloud that issues tokens.");
    "sasl.oauthbearer.method" String = "default", allowed(OneOf(&["default", "oidc"])),
        about("oidc: tokens come from sasl.oauthbearer.token.endpoint.url, which is required then.");
    "sasl.password" Password, about("Password for PLAIN and SCRAM.");
    "sasl.username" String, about("User name for PLAIN and SCRAM.");
    "ssl.ca.certificate.stores" String = "Root", default_only("the certificates of the operating system are used"),
        about("Certificate stores of Windows.");
    "ssl.certificate.location" String,
        about("File with the certificate chain of the client, in PEM.");
    "ssl.crl.location" String, about("File with revoked certificates.");
    "ssl.curves.list" String, default_only(TLS_LIBRARY), about("Elliptic curves of TLS.");
    "ssl.engine.id" String = "dynamic", default_only(NO_OPENSSL), about("Id of OpenSSL's engine.");
    "ssl.engine.location" String, default_only(NO_OPENSSL), about("Path of OpenSSL's engine.");
    "ssl.key.location" String, about("File with the private key of the client, in PEM.");
    "ssl.providers" String, default_only(NO_OPENSSL), about("Providers of OpenSSL.");
    "ssl.sigalgs.list" String, default_only(TLS_LIBRARY), about("Signature algorithms of TLS.");
};

const TLS_LIBRARY: &str = "the TLS library (rustls) offers all safe ones";
const NO_OPENSSL: &str = "TLS is not done by OpenSSL";

//! Names of protocols and cipher suites, as Java and OpenSSL have them.

use rustls::{
    SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    version::{TLS12, TLS13},
};

use super::TlsError;

/// Suites by Java's name and OpenSSL's, in the order of preference.
const SUITES: [(&str, &str, SupportedCipherSuite); 9] = [
    (
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384",
        ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
        ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        ring::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Protocol versions and cipher suites that a configuration allows.
pub(super) struct Allowed {
    pub(super) provider: CryptoProvider,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Allowed {
    pub(super) fn new(protocols: &[String], suites: &[String]) -> Result<Self, TlsError> {
        let mut provider = ring::default_provider();
        if let Some(chosen) = parse_suites(suites)? {
            provider.cipher_suites = chosen;
        }
        // A version without any suite would be negotiated and then fail.
        let has_suite = |version: &&'static SupportedProtocolVersion| {
            let mut suites = provider.cipher_suites.iter();
            suites.any(|suite| suite.version().version == version.version)
        };
        let versions: Vec<_> = parse_protocols(protocols)?.into_iter().filter(has_suite).collect();
        if versions.is_empty() {
            return Err(TlsError::Options(format!(
                "ssl.cipher.suites has no suite for the protocols {}",
                protocols.join(", ")
            )));
        }
        Ok(Self { provider, versions })
    }
}

fn parse_protocols(names: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let mut versions = Vec::new();
    for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        let version = match name.to_ascii_uppercase().as_str() {
            "TLSV1.2" => &TLS12,
            "TLSV1.3" => &TLS13,
            _ => {
                return Err(TlsError::Options(format!(
                    "ssl.enabled.protocols: `{name}` is not supported; supported are TLSv1.2 and TLSv1.3"
                )));
            }
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    if versions.is_empty() {
        versions = vec![&TLS13, &TLS12];
    }
    Ok(versions)
}

/// The chosen suites; `None` for all.
fn parse_suites(names: &[String]) -> Result<Option<Vec<SupportedCipherSuite>>, TlsError> {
    let mut chosen = Vec::new();
    // OpenSSL separates by colons.
    let names = names.iter().flat_map(|name| name.split(':')).map(str::trim);
    for name in names.filter(|name| !name.is_empty()) {
        let known = SUITES
            .iter()
            .find(|(java, openssl, _)| java.eq_ignore_ascii_case(name) || openssl.eq_ignore_ascii_case(name));
        let Some((_, _, suite)) = known else {
            let all: Vec<_> = SUITES.iter().map(|(java, _, _)| *java).collect();
            return Err(TlsError::Options(format!(
                "ssl.cipher.suites: `{name}` is not supported; supported are {} (or OpenSSL's names for them)",
                all.join(", ")
            )));
        };
        if !chosen.contains(suite) {
            chosen.push(*suite);
        }
    }
    Ok((!chosen.is_empty()).then_some(chosen))
}

#[cfg(test)]
mod tests {
    use rustls::ProtocolVersion;

    use super::*;

    fn allowed(protocols: &[&str], suites: &[&str]) -> Result<(Vec<ProtocolVersion>, usize), String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let allowed = Allowed::new(&owned(protocols), &owned(suites)).map_err(|error| error.to_string())?;
        let versions = allowed.versions.iter().map(|version| version.version).collect();
        Ok((versions, allowed.provider.cipher_suites.len()))
    }

    #[test]
    fn all_suites_of_the_provider_have_names() {
        let provider = ring::default_provider().cipher_suites;
        assert_eq!(provider.len(), SUITES.len());
        for suite in provider {
            assert!(SUITES.iter().any(|(_, _, known)| *known == suite), "{suite:?}");
        }
    }

    #[test]
    fn names_of_java_and_openssl_are_taken() {
        use ProtocolVersion::{TLSv1_2, TLSv1_3};
        assert_eq!(allowed(&[], &[]), Ok((vec![TLSv1_3, TLSv1_2], 9)));
        assert_eq!(allowed(&["TLSv1.2", " tlsv1.3 "], &[]), Ok((vec![TLSv1_2, TLSv1_3], 9)));
        assert_eq!(
            allowed(
                &["TLSv1.2", "TLSv1.3"],
                &["ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256"]
            ),
            Ok((vec![TLSv1_2], 2))
        );
        assert_eq!(
            allowed(
                &["TLSv1.3"],
                &["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
            ),
            Ok((vec![TLSv1_3], 2))
        );
    }

    #[test]
    fn unknown_names_are_errors_that_list_the_known() {
        assert!(allowed(&["TLSv1.1"], &[]).unwrap_err().contains("TLSv1.2 and TLSv1.3"));
        let error = allowed(&[], &["TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err();
        assert!(error.contains("TLS_RSA_WITH_AES_128_CBC_SHA") && error.contains("TLS_AES_256_GCM_SHA384"));
        let error = allowed(&["TLSv1.3"], &["ECDHE-RSA-AES128-GCM-SHA256"]).unwrap_err();
        assert!(error.contains("no suite for the protocols TLSv1.3"), "{error}");
    }
}

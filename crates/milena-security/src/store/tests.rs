//! Stores of OpenSSL and Java, and what hostile ones do.

use proptest::prelude::*;

use super::*;
use crate::x509::Certificate;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::from(text))
}

fn subjects(certificates: &[CertificateDer<'_>]) -> Vec<String> {
    let subject = |der: &CertificateDer<'_>| Certificate::parse(der).unwrap().subject_text();
    certificates.iter().map(subject).collect()
}

const SERVER: &str = "O=Milena,CN=broker1";
const CA: &str = "CN=Test CA,O=Milena,C=CZ";

#[test]
fn key_stores_of_openssl_and_java_are_read() {
    for (name, chain) in [
        ("openssl.p12", &[SERVER, CA][..]),
        ("openssl-legacy.p12", &[SERVER, CA]),
        ("openssl-chain.p12", &[SERVER, "CN=Intermediate CA,O=Milena"]),
        ("java.p12", &[SERVER, CA]),
        ("java-legacy.p12", &[SERVER, CA]),
        ("java.jks", &[SERVER, CA]),
    ] {
        let identity = read_identity(&fixture(name), secret("secret").as_ref(), None);
        let identity = identity.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(subjects(&identity.chain), chain, "{name}");
        let wrong = read_identity(&fixture(name), secret("wrong").as_ref(), None);
        assert_eq!(wrong.err(), Some(StoreError::Password), "{name}");
        let missing = read_identity(&fixture(name), None, None);
        assert_eq!(missing.err(), Some(StoreError::PasswordMissing), "{name}");
    }
}

#[test]
fn the_key_of_a_jks_may_have_its_own_password() {
    let store = fixture("java-two-passwords.jks");
    let read = |key: Option<Secret>| read_identity(&store, secret("secret").as_ref(), key.as_ref());
    assert_eq!(subjects(&read(secret("geheim")).unwrap().chain), [SERVER, CA]);
    assert!(
        read(None)
            .unwrap_err()
            .to_string()
            .contains("ssl.key.password is wrong")
    );
}

#[test]
fn another_password_for_a_key_in_pkcs12_is_refused_by_name() {
    let error = read_identity(
        &fixture("java.p12"),
        secret("secret").as_ref(),
        secret("geheim").as_ref(),
    );
    assert!(error.unwrap_err().to_string().contains("ssl.key.password"));
}

#[test]
fn private_keys_of_all_kinds_are_read() {
    let certificate = fixture("server.pem");
    for (key, password) in [
        ("server.key.pem", None),
        ("server.pkcs1.key.pem", None),
        ("server.pbes2.key.pem", secret("secret")),
        ("server.pbes2-sha1.key.pem", secret("secret")),
        ("server.pbes2-3des.key.pem", secret("secret")),
        ("server.scrypt.key.pem", secret("secret")),
    ] {
        // Chain and key in one file, with the key first and without the last line break.
        let mut text = fixture(key);
        text.extend(&certificate);
        let text = String::from_utf8(text).unwrap();
        for text in [
            text.trim_end().to_owned(),
            text.replace('\n', " "),
            text.replace('\n', "\\n"),
        ] {
            let identity = read_identity(text.as_bytes(), None, password.as_ref());
            let identity = identity.unwrap_or_else(|error| panic!("{key}: {error}"));
            assert_eq!(subjects(&identity.chain), [SERVER]);
        }
    }
    for (certificate, key) in [
        ("server-ec.pem", "server-ec.key.pem"),
        ("server-ec.pem", "server-ec.sec1.key.pem"),
        ("server-ed25519.pem", "server-ed25519.key.pem"),
    ] {
        assert!(
            read_pem_pair(&fixture(certificate), &fixture(key), None).is_ok(),
            "{key}"
        );
    }
}

#[test]
fn refused_keys_say_how_to_convert_them() {
    for (key, password, hint) in [
        ("server.pbes1.key.pem", secret("secret"), "openssl pkcs8 -topk8 -v2"),
        ("server.old.key.pem", secret("secret"), "openssl pkcs8 -topk8 -v2"),
        ("server.pbes2.key.pem", secret("wrong"), "ssl.key.password is wrong"),
        ("server.pbes2.key.pem", None, "set ssl.key.password"),
        ("p521.key.pem", None, "P-256 and P-384"),
        ("server-ec.key.pem", None, "belongs to none of the certificates"),
    ] {
        let Err(PairError::Key(error)) = read_pem_pair(&fixture("server.pem"), &fixture(key), password.as_ref()) else {
            panic!("{key} was read");
        };
        let error = error.to_string();
        assert!(error.contains(hint) && !error.contains("secret"), "{key}: {error}");
    }
    let Err(PairError::Key(error)) = read_pem_pair(&fixture("v1.pem"), &fixture("server.key.pem"), None) else {
        panic!("X.509 v1 was read");
    };
    assert!(error.to_string().contains("X.509 v1"), "{error}");
}

#[test]
fn the_certificate_of_the_key_comes_first() {
    let mut reversed = fixture("ca.pem");
    reversed.extend(fixture("server.pem"));
    let identity = read_pem_pair(&reversed, &fixture("server.key.pem"), None);
    let identity = identity.unwrap_or_else(|_| panic!("the chain was not read"));
    assert_eq!(subjects(&identity.chain), [SERVER, CA]);
}

#[test]
fn trusted_certificates_are_read_from_all_formats() {
    for (name, password, subject) in [
        ("ca.pem", None, CA),
        ("ca.der", None, CA),
        ("ca.trusted.pem", None, CA),
        ("java-trust.p12", secret("secret"), CA),
        ("java-trust.jks", secret("žluťoučký"), CA),
        // Certificates in a JKS are readable without a password.
        ("java-trust.jks", None, CA),
        ("openssl-trust.p12", secret("secret"), CA),
        ("openssl-trust-empty.p12", None, CA),
        // A key store as trust store: Java trusts the certificate of the key, not its CA.
        ("java.jks", None, SERVER),
        ("java.p12", secret("secret"), SERVER),
    ] {
        let certificates = read_trusted(&fixture(name), password.as_ref());
        let certificates = certificates.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(subjects(&certificates), [subject], "{name}");
    }
    let trusted = |name: &str, password: Option<Secret>| read_trusted(&fixture(name), password.as_ref()).unwrap_err();
    assert_eq!(trusted("java-trust.jks", secret("wrong")), StoreError::Password);
    assert_eq!(trusted("java-trust.p12", None), StoreError::PasswordMissing);
    assert_eq!(trusted("ca.pem", secret("secret")), StoreError::PasswordForTrustedPem);
    assert_eq!(trusted("server.key.pem", None), StoreError::NoCertificate);
}

#[test]
fn other_formats_are_refused_by_name() {
    let read = |bytes: &[u8]| read_identity(bytes, secret("secret").as_ref(), None).unwrap_err();
    assert!(read(&fixture("java.jceks")).to_string().contains("JCEKS"));
    assert_eq!(read(&[]), StoreError::Empty);
    assert_eq!(read(b"hello"), StoreError::Unrecognised);
    assert_eq!(read(&fixture("server.pem")), StoreError::PasswordForPem);
    assert_eq!(read(&fixture("ca.der")), StoreError::NoKey);
    let two = [fixture("server.key.pem"), fixture("server-ec.key.pem")].concat();
    assert_eq!(read_key(&two, None).unwrap_err(), StoreError::ManyKeys(2));
}

#[test]
fn revocation_lists_are_read() {
    assert_eq!(read_revocation_lists(&fixture("ca.crl.pem")).unwrap().len(), 1);
    assert_eq!(
        read_revocation_lists(&fixture("ca.pem")).unwrap_err(),
        StoreError::NoRevocationList
    );
}

/// Reads bytes as everything they could be. Only panics and endless work are failures.
fn read_all(bytes: &[u8]) {
    let password = secret("secret");
    let _ = read_identity(bytes, password.as_ref(), None);
    let _ = read_identity(bytes, None, password.as_ref());
    let _ = read_trusted(bytes, None);
    let _ = read_trusted(bytes, password.as_ref());
    let _ = read_revocation_lists(bytes);
    let _ = read_key(bytes, password.as_ref());
    let _ = Certificate::parse(bytes).map(|parsed| (parsed.subject_text(), parsed.issuer_text()));
}

/// Stores whose reading is cheap enough to be repeated: no derivation of keys, or only after a digest has matched.
const CHEAP: [&str; 6] = [
    "java.jks",
    "java-trust.jks",
    "ca.der",
    "server.pem",
    "server.pkcs1.key.pem",
    "ca.crl.pem",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damaged_stores_never_panic(
        name in prop::sample::select(&CHEAP[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = fixture(name);
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read_all(&bytes);
    }

    #[test]
    fn any_bytes_never_panic(prefix in prop::sample::select(vec![
        &[][..], &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2], &[0x30, 0x82, 1, 0, 2, 1, 3], b"-----BEGIN CERTIFICATE-----",
    ]), rest in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&[prefix, &rest[..]].concat());
    }
}

proptest! {
    // Each of these derives keys from passwords, which takes milliseconds.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn damaged_encrypted_stores_never_panic(
        name in prop::sample::select(vec!["openssl.p12", "java-legacy.p12", "openssl-trust-empty.p12", "server.pbes2.key.pem"]),
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = fixture(name);
        let place = place.index(bytes.len());
        bytes[place] = value;
        read_all(&bytes);
    }
}

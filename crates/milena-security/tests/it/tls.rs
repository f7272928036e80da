//! Clients and servers that meet in memory, with certificates of OpenSSL and Java.

use std::{fs, path::Path};

use milena_security::{
    Secret,
    tls::{
        ClientAuth, ClientTls, FailureKind, ServerTls, Source, TlsError, TlsOptions, explain, explain_accept,
        rustls::{HandshakeKind, ProtocolVersion},
        server_name,
    },
};

use crate::support::{Failed, connect, fixture, fixture_text, handshake, is_same};

fn pair(name: &str) -> TlsOptions {
    TlsOptions {
        certificate_chain: Some(Source::file(fixture(&format!("{name}.pem")))),
        key: Some(Source::file(fixture(&format!("{name}.key.pem")))),
        ..TlsOptions::default()
    }
}

fn trusting(file: &str) -> TlsOptions {
    TlsOptions {
        truststore: Some(Source::file(fixture(file))),
        ..TlsOptions::default()
    }
}

/// A client with a certificate that trusts the test CA.
fn client_with(name: &str) -> TlsOptions {
    TlsOptions {
        truststore: Some(Source::file(fixture("ca.pem"))),
        ..pair(name)
    }
}

fn demanding(name: &str, client_auth: ClientAuth) -> TlsOptions {
    TlsOptions {
        client_auth,
        truststore: Some(Source::file(fixture("ca.pem"))),
        ..pair(name)
    }
}

/// The client's explanation of a failed handshake.
fn refused(client: &TlsOptions, server: &TlsOptions, host: &str) -> String {
    match connect(client, server, host) {
        Err(Failed::Client(error)) => {
            let failure = explain(&error, host);
            assert_eq!(failure.kind, FailureKind::Authentication, "{failure}");
            failure.text
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn certificates_of_all_kinds_are_served_and_verified() {
    for name in ["server", "server-ec", "server-ed25519"] {
        let connected = connect(&trusting("ca.pem"), &pair(name), "localhost").unwrap();
        assert_eq!(
            connected.client.protocol_version(),
            Some(ProtocolVersion::TLSv1_3),
            "{name}"
        );
    }
    for host in [
        "broker1.example.com",
        "broker1.example.com.",
        "127.0.0.1",
        "::1",
        "[::1]",
    ] {
        connect(&trusting("ca.pem"), &pair("server"), host).unwrap();
    }
}

#[test]
fn stores_of_all_formats_are_served_and_trusted() {
    for (store, password) in [
        ("openssl.p12", "secret"),
        ("openssl-legacy.p12", "secret"),
        ("java.p12", "secret"),
        ("java.jks", "secret"),
    ] {
        let server = TlsOptions {
            keystore: Some(Source::file(fixture(store))),
            keystore_password: Some(Secret::from(password)),
            ..TlsOptions::default()
        };
        for (truststore, password) in [
            ("java-trust.jks", None),
            ("java-trust.p12", Some("secret")),
            ("ca.der", None),
        ] {
            let client = TlsOptions {
                truststore_password: password.map(Secret::from),
                ..trusting(truststore)
            };
            connect(&client, &server, "localhost").unwrap();
        }
    }
}

#[test]
fn text_in_the_config_works_on_one_line() {
    let server = TlsOptions {
        certificate_chain: Some(Source::text(fixture_text("server.pem").replace('\n', " "))),
        key: Some(Source::text(fixture_text("server.pbes2.key.pem").replace('\n', " "))),
        key_password: Some(Secret::from("secret")),
        ..TlsOptions::default()
    };
    let client = TlsOptions {
        truststore_certificates: Some(Source::text(fixture_text("ca.pem").replace('\n', " "))),
        ..TlsOptions::default()
    };
    connect(&client, &server, "localhost").unwrap();
}

#[test]
fn a_directory_of_authorities_is_read() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(fixture("ca.pem"), directory.path().join("ca.crt")).unwrap();
    fs::write(directory.path().join("README"), "not a certificate").unwrap();
    let client = TlsOptions {
        truststore: Some(Source::file(directory.path())),
        ..TlsOptions::default()
    };
    connect(&client, &pair("server"), "localhost").unwrap();
    let empty = tempfile::tempdir().unwrap();
    let client = TlsOptions {
        truststore: Some(Source::file(empty.path())),
        ..TlsOptions::default()
    };
    assert!(
        ClientTls::new(&client)
            .unwrap_err()
            .to_string()
            .contains("no file in this directory")
    );
}

#[test]
fn a_chain_of_the_server_leads_to_the_root() {
    let server = TlsOptions {
        certificate_chain: Some(Source::file(fixture("chain.pem"))),
        ..pair("server")
    };
    connect(&trusting("ca.pem"), &server, "localhost").unwrap();
    let broken = TlsOptions {
        certificate_chain: Some(Source::file(fixture("chain-leaf.pem"))),
        ..pair("server")
    };
    let text = refused(&trusting("ca.pem"), &broken, "localhost");
    assert!(text.contains("CN=Intermediate CA,O=Milena"), "{text}");
}

#[test]
fn another_host_name_is_refused_with_the_names_offered() {
    let text = refused(&trusting("ca.pem"), &pair("server"), "broker9.example.com");
    for part in [
        "broker9.example.com",
        "DNS:broker1.example.com",
        "IP:127.0.0.1",
        "advertised.listeners",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let text = refused(&trusting("ca.pem"), &pair("server"), "10.1.2.3");
    assert!(text.contains("not for 10.1.2.3"), "{text}");
}

#[test]
fn without_host_check_only_the_name_is_forgiven() {
    let lenient = |truststore: &str| TlsOptions {
        verify_host: false,
        ..trusting(truststore)
    };
    connect(&lenient("ca.pem"), &pair("server"), "elsewhere").unwrap();
    connect(&lenient("ca.pem"), &pair("cn-only"), "elsewhere").unwrap();
    let text = refused(&lenient("self-signed.pem"), &pair("server"), "elsewhere");
    assert!(
        text.contains("is not in") && text.contains("CN=Test CA,O=Milena,C=CZ"),
        "{text}"
    );
    let expired = TlsOptions {
        certificate_chain: Some(Source::file(fixture("expired.pem"))),
        ..pair("server")
    };
    let text = refused(&lenient("ca.pem"), &expired, "elsewhere");
    assert!(
        text.contains("expired") && text.contains("2002-01-01T00:00:00Z"),
        "{text}"
    );
}

#[test]
fn without_verification_any_server_is_accepted() {
    let client = TlsOptions {
        verify_certificate: false,
        ..TlsOptions::default()
    };
    connect(&client, &pair("self-signed"), "elsewhere").unwrap();
}

#[test]
fn a_common_name_alone_is_explained() {
    let text = refused(&trusting("ca.pem"), &pair("cn-only"), "localhost");
    assert!(text.contains("no subject alternative name"), "{text}");
    assert!(text.contains("CN=localhost"), "{text}");
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_in_the_trust_store() {
    let server = pair("self-signed");
    connect(&trusting("self-signed.pem"), &server, "localhost").unwrap();
    // Its name still counts.
    let text = refused(&trusting("self-signed.pem"), &server, "broker1");
    assert!(text.contains("not for broker1"), "{text}");
    let text = refused(&trusting("ca.pem"), &server, "localhost");
    assert!(text.contains("CN=localhost"), "{text}");
}

#[test]
fn an_expired_certificate_in_the_trust_store_is_not_trusted() {
    let expired = TlsOptions {
        certificate_chain: Some(Source::file(fixture("expired.pem"))),
        ..pair("server")
    };
    let text = refused(&trusting("expired.pem"), &expired, "localhost");
    assert!(text.contains("expired"), "{text}");
}

#[test]
fn a_required_client_certificate_is_verified_and_passed_on() {
    let server = demanding("server", ClientAuth::Required);
    let connected = connect(&client_with("client"), &server, "localhost").unwrap();
    assert_eq!(connected.server.peer_certificates().unwrap().len(), 1);
    // With TLS 1.3, the client learns it from an alert after its handshake.
    let error = connect(&trusting("ca.pem"), &server, "localhost").unwrap_err();
    let Failed::Server(error) = error else {
        panic!("{error:?}")
    };
    let failure = explain_accept(&error, "10.0.0.1");
    assert_eq!(failure.kind, FailureKind::Authentication);
    assert!(failure.text.contains("ssl.client.auth=required"), "{failure}");
}

#[test]
fn a_requested_client_certificate_may_be_absent_but_not_wrong() {
    let server = demanding("server", ClientAuth::Requested);
    let connected = connect(&trusting("ca.pem"), &server, "localhost").unwrap();
    assert!(connected.server.peer_certificates().is_none());
    connect(&client_with("client"), &server, "localhost").unwrap();
    let stranger = client_with("self-signed");
    assert!(matches!(
        connect(&stranger, &server, "localhost"),
        Err(Failed::Server(_))
    ));
}

#[test]
fn a_client_certificate_in_the_trust_store_is_trusted() {
    let server = TlsOptions {
        truststore: Some(Source::file(fixture("self-signed.pem"))),
        ..demanding("server", ClientAuth::Required)
    };
    connect(&client_with("self-signed"), &server, "localhost").unwrap();
}

#[test]
fn client_authentication_needs_a_trust_store() {
    let server = TlsOptions {
        client_auth: ClientAuth::Required,
        ..pair("server")
    };
    let error = ServerTls::new(&server).unwrap_err().to_string();
    assert!(error.contains("ssl.truststore.location"), "{error}");
    let error = ServerTls::new(&TlsOptions::default()).unwrap_err().to_string();
    assert!(error.contains("ssl.keystore.location"), "{error}");
}

#[test]
fn revoked_certificates_are_refused() {
    let server = TlsOptions {
        crl: Some(Source::file(fixture("ca.crl.pem"))),
        ..demanding("server", ClientAuth::Required)
    };
    connect(&client_with("client"), &server, "localhost").unwrap();
    let error = connect(&client_with("client-revoked"), &server, "localhost").unwrap_err();
    let Failed::Server(error) = error else {
        panic!("{error:?}")
    };
    assert!(explain_accept(&error, "10.0.0.1").text.contains("evoked"));
    let stale = TlsOptions {
        crl: Some(Source::file(fixture("expired.crl.pem"))),
        ..trusting("ca.pem")
    };
    let text = refused(&stale, &pair("server"), "localhost");
    assert!(text.contains("revocation list") && text.contains("expired"), "{text}");
}

#[test]
fn protocols_and_suites_are_honoured() {
    let old = TlsOptions {
        protocols: vec!["TLSv1.2".to_owned()],
        cipher_suites: vec!["ECDHE-RSA-AES128-GCM-SHA256".to_owned()],
        ..trusting("ca.pem")
    };
    let connected = connect(&old, &pair("server"), "localhost").unwrap();
    assert_eq!(connected.client.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    let suite = connected.client.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite.as_str(), Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"));
    let new = TlsOptions {
        protocols: vec!["TLSv1.3".to_owned()],
        ..pair("server")
    };
    assert!(connect(&old, &new, "localhost").is_err());
}

/// Options that contradict each other, with the beginning of Kafka's text.
fn assert_refused(cases: Vec<(TlsOptions, &str)>) {
    for (options, text) in cases {
        let error = ClientTls::new(&options).unwrap_err();
        assert!(
            matches!(&error, TlsError::Options(found) if found.starts_with(text)),
            "{error}"
        );
    }
}

#[test]
fn contradictory_key_stores_are_refused_in_the_words_of_kafka() {
    let some = || Some(Source::file(fixture("server.pem")));
    let password = || Some(Secret::from("secret"));
    let none = TlsOptions::default;
    assert_refused(vec![
        (
            TlsOptions { key: some(), ..none() },
            "SSL private key is specified, but certificate chain is not specified.",
        ),
        (
            TlsOptions {
                certificate_chain: some(),
                ..none()
            },
            "SSL certificate chain is specified, but private key is not specified",
        ),
        (
            TlsOptions {
                key: some(),
                certificate_chain: some(),
                keystore: some(),
                ..none()
            },
            "Both SSL key store location and separate private key are specified.",
        ),
        (
            TlsOptions {
                key: some(),
                certificate_chain: some(),
                keystore_password: password(),
                ..none()
            },
            "SSL key store password cannot be specified with PEM format, only key password may be specified.",
        ),
        (
            TlsOptions {
                keystore_password: password(),
                ..none()
            },
            "SSL key store is not specified, but key store password is specified.",
        ),
        (
            TlsOptions {
                keystore: Some(Source::file(fixture("java.p12"))),
                ..none()
            },
            "SSL key store is specified, but key store password is not specified.",
        ),
    ]);
}

#[test]
fn contradictory_trust_stores_are_refused_in_the_words_of_kafka() {
    let some = || Some(Source::file(fixture("server.pem")));
    let password = || Some(Secret::from("secret"));
    let none = TlsOptions::default;
    assert_refused(vec![
        (
            TlsOptions {
                truststore: some(),
                truststore_certificates: some(),
                ..none()
            },
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        (
            TlsOptions {
                truststore_password: password(),
                ..none()
            },
            "SSL trust store is not specified, but trust store password is specified.",
        ),
        (
            TlsOptions {
                truststore: some(),
                truststore_password: password(),
                ..none()
            },
            "SSL trust store password cannot be specified for PEM format.",
        ),
    ]);
}

#[test]
fn errors_name_the_file_and_never_a_password() {
    let options = TlsOptions {
        keystore: Some(Source::file(fixture("java.p12"))),
        keystore_password: Some(Secret::from("hunter2")),
        ..TlsOptions::default()
    };
    let error = ClientTls::new(&options).unwrap_err().to_string();
    assert!(
        error.contains("java.p12") && error.contains("wrong password"),
        "{error}"
    );
    assert!(!error.contains("hunter2") && !format!("{options:?}").contains("hunter2"));
    let missing = trusting("missing.pem");
    let error = ClientTls::new(&missing).unwrap_err().to_string();
    assert!(
        error.contains("missing.pem") && error.contains("cannot be opened"),
        "{error}"
    );
}

#[test]
fn hosts_become_names() {
    assert_eq!(server_name("a.b.").unwrap(), server_name("a.b").unwrap());
    assert_eq!(server_name("fe80::1%eth0").unwrap(), server_name("[fe80::1]").unwrap());
    assert!(server_name("").is_err());
    assert!(server_name("a b").is_err());
}

#[test]
fn sessions_are_resumed() {
    for server in [pair("server"), demanding("server", ClientAuth::Required)] {
        let client = ClientTls::new(&client_with("client")).unwrap();
        let server = ServerTls::new(&server).unwrap();
        let first = handshake(&client, &server, "localhost").unwrap();
        assert_eq!(first.client.handshake_kind(), Some(HandshakeKind::Full));
        let second = handshake(&client, &server, "localhost").unwrap();
        assert_eq!(second.client.handshake_kind(), Some(HandshakeKind::Resumed));
        assert_eq!(
            first.server.peer_certificates(),
            second.server.peer_certificates(),
            "a resumed session has the same client"
        );
    }
}

/// Copies certificate and key of a fixture over the files of a server.
fn install(name: &str, directory: &Path) {
    fs::copy(fixture(&format!("{name}.pem")), directory.join("server.pem")).unwrap();
    fs::copy(fixture(&format!("{name}.key.pem")), directory.join("server.key.pem")).unwrap();
}

fn installed(directory: &Path) -> TlsOptions {
    TlsOptions {
        certificate_chain: Some(Source::file(directory.join("server.pem"))),
        key: Some(Source::file(directory.join("server.key.pem"))),
        ..TlsOptions::default()
    }
}

#[test]
fn a_server_follows_its_files() {
    let directory = tempfile::tempdir().unwrap();
    install("server-other-names", directory.path());
    let server = ServerTls::new(&installed(directory.path())).unwrap();
    let before = server.config();
    assert_eq!(server.reload_if_changed(), Ok(false));
    // More names are no problem.
    install("server", directory.path());
    assert_eq!(server.reload_if_changed(), Ok(true));
    assert!(!is_same(&before, &server.config()));
    let client = ClientTls::new(&trusting("ca.pem")).unwrap();
    handshake(&client, &server, "broker1.example.com").unwrap();
    assert_eq!(server.reload(), Ok(false), "nothing has changed");
}

#[test]
fn an_unusable_file_is_reported_once_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    install("server", directory.path());
    let server = ServerTls::new(&installed(directory.path())).unwrap();
    let before = server.config();
    fs::write(directory.path().join("server.pem"), "half a certifi").unwrap();
    assert!(
        server
            .reload_if_changed()
            .unwrap_err()
            .to_string()
            .contains("server.pem")
    );
    assert_eq!(server.reload_if_changed(), Ok(false));
    assert!(server.reload().is_err(), "a reload by hand reports it again");
    // A new certificate while the key is still the old one.
    fs::copy(fixture("server-other-names.pem"), directory.path().join("server.pem")).unwrap();
    assert!(
        server
            .reload_if_changed()
            .unwrap_err()
            .to_string()
            .contains("belongs to none")
    );
    assert!(is_same(&before, &server.config()));
    install("server", directory.path());
    assert_eq!(server.reload_if_changed(), Ok(false), "it is as it was");
    fs::remove_file(directory.path().join("server.key.pem")).unwrap();
    assert!(server.reload_if_changed().is_err());
    assert!(is_same(&before, &server.config()));
}

#[test]
fn a_server_keeps_its_subject_and_names() {
    let directory = tempfile::tempdir().unwrap();
    for (name, hint, lenient) in [
        (
            "server-other-subject",
            "ssl.allow.dn.changes",
            TlsOptions {
                allow_dn_changes: true,
                ..installed(directory.path())
            },
        ),
        (
            "server-other-names",
            "ssl.allow.san.changes",
            TlsOptions {
                allow_san_changes: true,
                ..installed(directory.path())
            },
        ),
    ] {
        install("server", directory.path());
        let strict = ServerTls::new(&installed(directory.path())).unwrap();
        let lenient = ServerTls::new(&lenient).unwrap();
        install(name, directory.path());
        let error = strict.reload_if_changed().unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
        assert_eq!(lenient.reload_if_changed(), Ok(true), "{name}");
    }
    install("server-other-names", directory.path());
    let server = ServerTls::new(&installed(directory.path())).unwrap();
    install("server", directory.path());
    fs::copy(fixture("expired.pem"), directory.path().join("server.pem")).unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.contains("expired at 2002-01-01"), "{error}");
}

#[test]
fn a_client_follows_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    fs::copy(fixture("self-signed.pem"), &path).unwrap();
    let client = ClientTls::new(&TlsOptions {
        truststore: Some(Source::file(&path)),
        ..TlsOptions::default()
    })
    .unwrap();
    let server = ServerTls::new(&pair("server")).unwrap();
    assert!(handshake(&client, &server, "localhost").is_err());
    fs::copy(fixture("ca.pem"), &path).unwrap();
    assert_eq!(client.reload_if_changed(), Ok(true));
    handshake(&client, &server, "localhost").unwrap();
    assert_eq!(client.reload_if_changed(), Ok(false));
}

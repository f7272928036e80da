//! Certificates for development, judged by TLS, OpenSSL's names and the readers of stores.

use milena_security::{
    Secret,
    dev_certs::{DevCa, random_password},
    principal::{PrincipalMapper, subject},
    tls::{ClientAuth, ClientTls, ServerTls, Source, TlsOptions},
};

use crate::support::handshake;

fn hosts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn server_and_client_meet_with_mutual_tls() {
    let ca = DevCa::new(10).unwrap();
    let server = ca.server(&hosts(&["localhost", "127.0.0.1", "::1"]), 10).unwrap();
    let client = ca.client("alice", 10).unwrap();
    let server = ServerTls::new(&TlsOptions {
        keystore: Some(Source::text(server.pem())),
        truststore_certificates: Some(Source::text(ca.certificate_pem())),
        client_auth: ClientAuth::Required,
        ..TlsOptions::default()
    })
    .unwrap();
    let client = ClientTls::new(&TlsOptions {
        certificate_chain: Some(Source::text(client.certificate_pem())),
        key: Some(Source::text(client.key_pem())),
        truststore_certificates: Some(Source::text(ca.certificate_pem())),
        ..TlsOptions::default()
    })
    .unwrap();
    for host in ["localhost", "127.0.0.1", "::1"] {
        let connected = handshake(&client, &server, host).unwrap();
        let certificate = &connected.server.peer_certificates().unwrap()[0];
        assert_eq!(subject(certificate).unwrap(), "CN=alice");
        let mapper = PrincipalMapper::parse("RULE:^CN=([^,]+).*$/$1/,DEFAULT").unwrap();
        assert_eq!(mapper.name(certificate).unwrap(), "alice");
    }
    assert!(handshake(&client, &server, "elsewhere").is_err());
}

#[test]
fn stores_are_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let ca = DevCa::new(10).unwrap();
    let password = random_password().unwrap();
    let server = ca.server(&hosts(&["localhost"]), 10).unwrap();
    let write = |name: &str, bytes: Vec<u8>| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Some(Source::file(path))
    };
    let server = ServerTls::new(&TlsOptions {
        keystore: write("server.p12", server.pkcs12(&password).unwrap()),
        keystore_password: Some(password.clone()),
        ..TlsOptions::default()
    })
    .unwrap();
    let client = ClientTls::new(&TlsOptions {
        truststore: write("ca.p12", ca.pkcs12(&password).unwrap()),
        truststore_password: Some(password),
        ..TlsOptions::default()
    })
    .unwrap();
    handshake(&client, &server, "localhost").unwrap();
}

#[test]
fn a_loaded_authority_signs_as_before() {
    let ca = DevCa::new(10).unwrap();
    let again = DevCa::load(ca.certificate_pem(), &ca.key_pem()).unwrap();
    let server = again.server(&hosts(&["localhost"]), 10).unwrap();
    let server = ServerTls::new(&TlsOptions {
        keystore: Some(Source::text(server.pem())),
        ..TlsOptions::default()
    })
    .unwrap();
    let client = ClientTls::new(&TlsOptions {
        truststore_certificates: Some(Source::text(ca.certificate_pem())),
        ..TlsOptions::default()
    })
    .unwrap();
    handshake(&client, &server, "localhost").unwrap();
    let other = DevCa::new(10).unwrap();
    assert!(DevCa::load(ca.certificate_pem(), &other.key_pem()).is_err());
    assert!(DevCa::load("", &Secret::default()).is_err());
}

#[test]
fn wrong_names_are_errors() {
    let ca = DevCa::new(10).unwrap();
    assert!(ca.server(&hosts(&["é"]), 10).is_err());
    assert!(ca.client(" ", 10).is_err());
}

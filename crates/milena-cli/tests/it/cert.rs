//! `milena cert`: files, their modes and the settings for them.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use milena_security::{
    Secret,
    tls::{ClientAuth, ClientTls, ServerTls, Source, TlsOptions},
};

use crate::command::{fails, milena};

fn cert(directory: &Path, arguments: &[&str]) -> String {
    let mut all = vec!["cert", "--dir", directory.to_str().unwrap()];
    all.extend(arguments);
    let output = milena(&all);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn one_command_makes_everything_and_prints_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(directory.path()).unwrap();
    let settings = cert(
        &path,
        &["--host", "kafka.example.com", "--client", "alice", "--client", "bob"],
    );
    let names: Vec<_> = contents(&path).into_keys().collect();
    let expected = "alice.p12 alice.pem bob.p12 bob.pem ca.key.pem ca.p12 ca.pem password server.p12 server.pem";
    assert_eq!(names.join(" "), expected);
    for name in &names {
        let mode = fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        let expected = if matches!(name.as_str(), "ca.pem" | "ca.p12") {
            0o644
        } else {
            0o600
        };
        assert_eq!(mode, expected, "{name}");
    }
    let password = fs::read_to_string(path.join("password")).unwrap();
    assert!(!settings.contains(password.trim()));
    for line in [
        format!("ssl.keystore.location={}", path.join("server.pem").display()),
        format!("ssl.truststore.location={}", path.join("ca.pem").display()),
        format!("ssl.keystore.location={}", path.join("alice.pem").display()),
        "ssl.keystore.type=PEM".to_owned(),
        "ssl.client.auth=required".to_owned(),
    ] {
        assert!(settings.lines().any(|found| found == line), "{line}: {settings}");
    }
}

#[test]
fn the_files_are_those_that_tls_takes() {
    let directory = tempfile::tempdir().unwrap();
    cert(directory.path(), &[]);
    let file = |name: &str| Some(Source::file(directory.path().join(name)));
    let password = fs::read_to_string(directory.path().join("password")).unwrap();
    let password = Some(Secret::from(password.trim()));
    ServerTls::new(&TlsOptions {
        keystore: file("server.pem"),
        truststore: file("ca.pem"),
        client_auth: ClientAuth::Required,
        ..TlsOptions::default()
    })
    .unwrap();
    ClientTls::new(&TlsOptions {
        keystore: file("client.p12"),
        keystore_password: password.clone(),
        truststore: file("ca.p12"),
        truststore_password: password,
        ..TlsOptions::default()
    })
    .unwrap();
}

#[test]
fn a_second_run_adds_and_never_replaces() {
    let directory = tempfile::tempdir().unwrap();
    cert(directory.path(), &["--client", "alice"]);
    let first = contents(directory.path());
    cert(directory.path(), &["--client", "alice", "--client", "bob"]);
    let second = contents(directory.path());
    assert_eq!(second.len(), first.len() + 2);
    assert!(first.iter().all(|(name, content)| second.get(name) == Some(content)));
    cert(directory.path(), &["--renew", "--client", "alice", "--host", "other"]);
    let third = contents(directory.path());
    for (name, content) in &second {
        let is_renewed = name.starts_with("server") || name.starts_with("alice");
        assert_eq!(third.get(name) != Some(content), is_renewed, "{name}");
    }
}

#[test]
fn wrong_arguments_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for name in ["server", "ca", "../x", "a/b", "", ".x"] {
        let error = fails(&["cert", "--dir", path, "--client", name]);
        assert!(error.contains("cannot be the name of a client"), "{error}");
    }
    assert!(contents(directory.path()).is_empty());
    cert(directory.path(), &[]);
    let error = fails(&["cert", "--dir", path, "--host", "kafka.example.com"]);
    assert!(error.contains("--renew"), "{error}");
    fs::remove_file(directory.path().join("ca.key.pem")).unwrap();
    let error = fails(&["cert", "--dir", path]);
    assert!(error.contains("ca.pem without ca.key.pem"), "{error}");
}

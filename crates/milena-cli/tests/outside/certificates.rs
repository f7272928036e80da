//! Files of `milena cert`, read by Java's keytool and by OpenSSL.

use std::{fs, path::Path, process::Command};

fn output(program: &str, directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

#[test]
fn keytool_and_openssl_read_the_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let arguments = ["cert", "--dir", ".", "--host", "kafka.example.com", "--client", "alice"];
    output(env!("CARGO_BIN_EXE_milena"), path, &arguments);
    let list = |store: &str| {
        output(
            "keytool",
            path,
            &["-list", "-v", "-keystore", store, "-storepass:file", "password"],
        )
    };
    let ca = list("ca.p12");
    assert!(ca.contains("trustedCertEntry"), "{ca}");
    let server = list("server.p12");
    for part in [
        "PrivateKeyEntry",
        "Certificate chain length: 2",
        "DNSName: kafka.example.com",
        "IPAddress: 127.0.0.1",
    ] {
        assert!(server.contains(part), "{server}");
    }
    assert!(list("alice.p12").contains("Owner: CN=alice"));
    let verified = output(
        "openssl",
        path,
        &["verify", "-CAfile", "ca.pem", "server.pem", "alice.pem"],
    );
    assert_eq!(verified.matches(": OK").count(), 2, "{verified}");
    for name in ["server", "alice"] {
        let key = output(
            "openssl",
            path,
            &["pkey", "-in", &format!("{name}.pem"), "-check", "-noout"],
        );
        assert!(key.contains("valid"), "{key}");
        let store = format!("{name}.p12");
        let pem = output(
            "openssl",
            path,
            &["pkcs12", "-in", &store, "-passin", "file:password", "-nodes"],
        );
        let body = fs::read_to_string(path.join(format!("{name}.pem"))).unwrap();
        let key = body.lines().nth(1).unwrap();
        assert!(pem.contains(key), "the same key in {name}.pem and {name}.p12");
    }
}

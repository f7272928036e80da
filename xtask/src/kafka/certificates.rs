//! Certificates of a test cluster, made with OpenSSL and Java's keytool.
//!
//! `ca.pem` signs all others. `server.pem` and one file for each user hold a key and its chain; `alice.p12`, `alice.jks`,
//! `truststore.p12` and `truststore.jks` hold the same in Java's formats, with the password `changeit`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::secured::USERS;

const DAYS: &str = "3650";
const STORE_PASSWORD: &str = "changeit";
const SERVER: &str = "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n\
    subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n";
const CLIENT: &str = "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n";

/// Makes the certificates in `dir`, unless they are there.
pub(super) fn make(dir: &Path) -> Result<()> {
    if dir.join("truststore.jks").exists() {
        return Ok(());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    make_authority(dir)?;
    sign(dir, "server", SERVER)?;
    for user in USERS {
        sign(dir, user, CLIENT)?;
    }
    make_stores(dir)
}

fn make_authority(dir: &Path) -> Result<()> {
    openssl(
        dir,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256",
    )
    .args(["-keyout", "ca.key", "-out", "ca.pem", "-days", DAYS])
    .args(["-subj", "/CN=Milena test CA/O=Milena"])
    .args(["-addext", "keyUsage=critical,keyCertSign,cRLSign"])
    .run()
}

/// Makes `<name>.key`, `<name>.crt` and `<name>.pem` with both.
fn sign(dir: &Path, name: &str, extensions: &str) -> Result<()> {
    let file = |ending: &str| format!("{name}.{ending}");
    openssl(
        dir,
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256",
    )
    .args(["-keyout", &file("key"), "-out", &file("csr")])
    .args(["-subj", &format!("/O=Milena/OU=tests/CN={name}")])
    .run()?;
    fs::write(dir.join(file("extensions")), extensions)?;
    openssl(dir, "x509 -req -sha256 -CA ca.pem -CAkey ca.key -CAcreateserial")
        .args(["-in", &file("csr"), "-out", &file("crt"), "-days", DAYS])
        .args(["-extfile", &file("extensions")])
        .run()?;
    let mut pem = fs::read_to_string(dir.join(file("key")))?;
    pem += &fs::read_to_string(dir.join(file("crt")))?;
    fs::write(dir.join(file("pem")), pem)?;
    fs::remove_file(dir.join(file("csr")))?;
    fs::remove_file(dir.join(file("extensions")))?;
    Ok(())
}

fn make_stores(dir: &Path) -> Result<()> {
    let password = format!("pass:{STORE_PASSWORD}");
    openssl(
        dir,
        "pkcs12 -export -in alice.pem -certfile ca.pem -name alice -out alice.p12",
    )
    .args(["-passout", &password])
    .run()?;
    keytool(
        dir,
        "-importkeystore -srckeystore alice.p12 -srcstoretype PKCS12 -destkeystore alice.jks",
    )
    .args(["-deststoretype", "JKS", "-srcstorepass", STORE_PASSWORD])
    .args(["-deststorepass", STORE_PASSWORD])
    .run()?;
    for (file, kind) in [("truststore.p12", "PKCS12"), ("truststore.jks", "JKS")] {
        keytool(dir, "-importcert -noprompt -alias ca -file ca.pem")
            .args(["-keystore", file, "-storetype", kind, "-storepass", STORE_PASSWORD])
            .run()?;
    }
    Ok(())
}

struct Tool(Command);

fn openssl(dir: &Path, arguments: &str) -> Tool {
    tool("openssl", dir, arguments)
}

fn keytool(dir: &Path, arguments: &str) -> Tool {
    tool("keytool", dir, arguments)
}

fn tool(program: &str, dir: &Path, arguments: &str) -> Tool {
    let mut command = Command::new(program);
    command.current_dir(dir).args(arguments.split(' '));
    Tool(command)
}

impl Tool {
    fn args<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.0.args(arguments);
        self
    }

    fn run(mut self) -> Result<()> {
        let output = self
            .0
            .output()
            .context("cannot run OpenSSL or keytool; on Debian or Ubuntu: apt-get install openssl")?;
        if !output.status.success() {
            let problem = String::from_utf8_lossy(&output.stderr);
            bail!("{:?} failed:\n{problem}", self.0);
        }
        Ok(())
    }
}

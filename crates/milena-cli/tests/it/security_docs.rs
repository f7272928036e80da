//! The configs and commands of docs/security.md.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use crate::{
    command::milena,
    process::{Process, command},
};

/// The public key of an issuer, from RFC 7517.
const KEYS: &str = r#"{"keys":[{"kty":"RSA","kid":"1","alg":"RS256","e":"AQAB","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"}]}"#;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    fs::read_to_string(path).unwrap()
}

/// The blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let (page, fence) = (page(), format!("```{language}\n"));
    let blocks = page.split(&fence).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// The files that the page names, below `dir` in place of `/etc/milena`.
fn write_files(dir: &Path) {
    let certs = dir.join("certs");
    let words = ["cert", "--host", "kafka.example.com", "--client", "alice", "--dir"];
    let output = milena(&[&words[..], &[certs.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    fs::create_dir(dir.join("aiven")).unwrap();
    for (name, copy) in [
        ("ca.pem", "ca.pem"),
        ("alice.pem", "service.cert"),
        ("alice.pem", "service.key"),
    ] {
        fs::copy(certs.join(name), dir.join("aiven").join(copy)).unwrap();
    }
    fs::write(dir.join("secrets.properties"), "admin=hunter2\n").unwrap();
    fs::write(dir.join("keys.json"), KEYS).unwrap();
}

/// A block as a file, with the paths of `dir`.
fn write_block(dir: &Path, block: &str) -> String {
    let here = dir.display().to_string();
    let text = block
        .replace("/etc/milena", &here)
        .replace("https://login.example.com/keys", &format!("file://{here}/keys.json"))
        .replace("0.0.0.0:", "127.0.0.1:");
    let without_port = |line: &str| match line.starts_with("listeners=") {
        true => line
            .replace(":9092", ":0")
            .replace(":9093", ":0")
            .replace(":9094", ":0"),
        false => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(without_port).collect();
    let file = dir.join("block.properties");
    fs::write(&file, lines.join("\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

fn with_secrets(command: &mut Command) -> &mut Command {
    for name in ["KAFKA_PASSWORD", "API_KEY", "API_SECRET", "CLIENT_SECRET"] {
        command.env(name, "hunter2");
    }
    command.env_remove("AWS_REGION").env_remove("RUST_LOG")
}

#[test]
fn clients_accept_the_configs() {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let refused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let clients: Vec<String> = blocks("properties")
        .into_iter()
        .filter(|block| block.starts_with("# client.properties\n"))
        .collect();
    assert!(clients.len() >= 10, "{}", clients.len());
    for block in clients {
        let file = write_block(dir.path(), &block);
        let region = if block.contains("AWS_MSK_IAM") { "eu-west-1" } else { "" };
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command.args(["topic", "list", "-F", &file, "-b", &refused, "--wait", "1ms"]);
        let output: Output = with_secrets(&mut command).env("AWS_REGION", region).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        // The config was read, and no broker listens there.
        assert!(said.contains("cannot reach"), "{block}\n{said}");
    }
}

#[test]
fn brokers_start_with_the_configs() {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let brokers: Vec<String> = blocks("properties")
        .into_iter()
        .filter(|block| block.starts_with("# broker.properties\n"))
        .collect();
    assert!(brokers.len() >= 5, "{}", brokers.len());
    for (number, block) in brokers.iter().enumerate() {
        let file = write_block(dir.path(), block);
        let data = dir.path().join(format!("data-{number}"));
        let broker = Process::spawn(with_secrets(&mut command(&data, &["--config", &file])));
        assert!(broker.terminate().success(), "{block}");
    }
}

#[test]
fn the_commands_for_acls_and_quotas_work() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(
        dir.path(),
        &["-X", "milena.authorizer=acl", "-X", "super.users=User:ANONYMOUS"],
    );
    let blocks = blocks("sh");
    let lines = blocks.iter().flat_map(|block| block.lines());
    let lines =
        lines.filter(|line| !line.contains("-F ") && (line.contains("milena acl") || line.contains("milena quota")));
    let mut count = 0;
    for line in lines {
        let line = line.split(" #").next().unwrap().trim();
        let words: Vec<&str> = line
            .split_whitespace()
            .skip(1)
            .map(|word| word.trim_matches('\''))
            .collect();
        let output = milena(&[&words[..], &["-b", &broker.address]].concat());
        assert!(output.status.success(), "{line}: {output:?}");
        count += 1;
    }
    assert!(count >= 10, "{count}");
}

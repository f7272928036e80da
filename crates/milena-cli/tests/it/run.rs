//! `milena run`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

use crate::{
    client::batch,
    command::{fails, milena},
    process::Process,
};

#[test]
fn an_application_of_programs_runs_until_it_is_told_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.create_topic("answers", 1, &[]);
    client.produce("letters", 0, batch(&["Dear Franz", "Dear Max"]));
    let file = dir.path().join("app.toml");
    let script = r#"while read -r line; do
        id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\),"topic".*/\1/')
        echo "{\"id\":$id,\"emit\":[{\"topic\":\"answers\",\"value\":\"Dear Milena\"}]}"
    done"#;
    let text = format!(
        "group = \"readers\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n",
        broker.address
    );
    fs::write(&file, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
        .arg("run")
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "RUNNING\n");
    let answers = milena(&[
        "consume",
        "-b",
        &broker.address,
        "-t",
        "answers",
        "-n",
        "2",
        "-f",
        "%s\n",
    ]);
    assert_eq!(
        String::from_utf8_lossy(&answers.stdout),
        "Dear Milena\nDear Milena\n",
        "{answers:?}"
    );
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(child.wait().unwrap().success());
    let committed = milena(&["group", "describe", "-b", &broker.address, "readers", "-o", "json"]);
    let committed = String::from_utf8(committed.stdout).unwrap();
    assert!(
        committed.contains("\"lag\": 0") || committed.contains("\"lag\":0"),
        "{committed}"
    );
}

#[test]
fn metrics_and_health_are_served_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let file = dir.path().join("app.toml");
    let text = "group = \"readers\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"cat\"]\n";
    fs::write(&file, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
        .args(["run", "-b", &broker.address, "--listen", "127.0.0.1:0"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line
        .strip_prefix("METRICS=http://")
        .unwrap()
        .strip_suffix("/metrics")
        .unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "RUNNING");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    let metrics = get("/metrics");
    assert!(metrics.contains("group=\"readers\""), "{metrics}");
    assert!(get("/nowhere").starts_with("HTTP/1.1 404"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_broker_that_cannot_be_reached_ends_it_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.toml");
    let text = "group = \"readers\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"cat\"]\n";
    fs::write(&file, text).unwrap();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let told = fails(&["run", "-b", &free, "--wait", "300ms", &file.to_string_lossy()]);
    assert!(told.contains(&free) && told.contains("connection refused"), "{told}");
}

#[test]
fn a_file_with_slips_is_refused_with_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.toml");
    fs::write(
        &file,
        "gruop = \"readers\"\n[[handlers]]\ntopic = \"letters\"\nretry = { atempts = 3 }\n",
    )
    .unwrap();
    let told = fails(&["run", &file.to_string_lossy()]);
    assert!(told.contains("gruop is not a known key; did you mean group?"), "{told}");
    assert!(
        told.contains("handlers[0].retry.atempts is not a known key; did you mean attempts?"),
        "{told}"
    );
    fs::write(&file, "group = \"readers\"\n[[handlers]]\ntopic = \"letters\"\n").unwrap();
    let told = fails(&["run", &file.to_string_lossy()]);
    assert!(
        told.contains("app.toml:2: handlers[0]: set either command or http"),
        "{told}"
    );
}

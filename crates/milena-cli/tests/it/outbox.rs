//! `milena outbox`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    command::{fails, milena},
    process::Process,
    sql::{postgres, prints, psql, sqlite},
};

/// `milena outbox relay` as a separate process.
struct RelayProcess {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl RelayProcess {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
            .args(["outbox", "relay"])
            .args(arguments)
            .env_remove("MILENA_BOOTSTRAP")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits for `RUNNING`. Returns the address of the metrics, if it is printed.
    fn running(&mut self) -> Option<String> {
        let mut metrics = None;
        loop {
            let mut line = String::new();
            self.out.read_line(&mut line).unwrap();
            match line.trim().strip_prefix("METRICS=http://") {
                Some(url) => metrics = url.split('/').next().map(str::to_owned),
                None => {
                    assert_eq!(line, "RUNNING\n");
                    return metrics;
                }
            }
        }
    }

    fn terminate(mut self) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", "TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn status(url: &str) -> Value {
    serde_json::from_str(&prints(&["outbox", "status", "-d", url, "-o", "json"])).unwrap()
}

/// Waits until the status is as wanted.
fn until(url: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let status = status(url);
        if wanted(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status:#}");
    }
}

fn insert(url: &str, aggregate: &str, columns: &str, values: &str) {
    let statement = format!(
        "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload{columns})
         VALUES ('orders', '{aggregate}', 'OrderPlaced', 'paper'{values})"
    );
    if url.starts_with("postgres") {
        psql(url, &statement);
        return;
    }
    let python = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()";
    let path = url.strip_prefix("sqlite://").unwrap();
    let inserted = Command::new("python3").args(["-c", python, path, &statement]).status();
    assert!(inserted.unwrap().success());
}

/// The only record of the topic is the event, with its headers.
fn assert_published(broker: &str, topic: &str) {
    let read = [
        "consume",
        "-b",
        broker,
        "-t",
        topic,
        "--exit-at-end",
        "-f",
        "%k %s %h\\n",
    ];
    let record = prints(&read);
    assert!(record.starts_with("7 paper id="), "{record}");
    assert!(record.ends_with(",eventType=OrderPlaced,tenant=a\n"), "{record}");
}

#[test]
fn events_of_a_table_are_published_and_cleaned() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Process::start(&directory.path().join("broker"), &[]);
    for url in [postgres(), sqlite(&directory)] {
        prints(&["sql", "init", "-d", &url]);
        let topic = format!("placed-{}", url.split(':').next().unwrap());
        insert(
            &url,
            "7",
            ", headers, topic",
            &format!(", '{{\"tenant\": \"a\"}}', '{topic}'"),
        );
        let listed: Value = serde_json::from_str(&prints(&["outbox", "ls", "-d", &url, "-o", "json"])).unwrap();
        assert_eq!(
            (&listed[0]["topic"], &listed[0]["payload_bytes"]),
            (&topic.clone().into(), &5.into())
        );
        let shown = prints(&["outbox", "status", "-d", &url]);
        assert!(
            shown.starts_with("1 event unpublished, the oldest ") && shown.contains("no relay is running"),
            "{shown}"
        );

        let mut relay = RelayProcess::start(&[
            "-d",
            &url,
            "-b",
            &broker.address,
            "--name",
            "r1",
            "--listen",
            "127.0.0.1:0",
        ]);
        let metrics = relay.running().unwrap();
        let status = until(&url, |status| status["unpublished"] == 0);
        assert_eq!(
            status["relays"][0]["name"].as_str().map(|name| name.starts_with("r1")),
            Some(true),
            "{status}"
        );
        assert_eq!(status["free_slots"], 0, "{status}");
        assert!(get(&metrics, "/metrics").contains("milena_outbox_"));
        assert!(get(&metrics, "/healthz").starts_with("HTTP/1.1 200"));
        assert!(get(&metrics, "/x").starts_with("HTTP/1.1 404"));
        relay.terminate();
        let status = self::status(&url);
        assert_eq!(
            status["relays"],
            Value::Array(vec![]),
            "leases are given back: {status}"
        );

        assert_published(&broker.address, &topic);
        let listed: Value =
            serde_json::from_str(&prints(&["outbox", "list", "--published", "-d", &url, "-o", "json"])).unwrap();
        assert_eq!(listed[0]["is_published"], true);
        assert_eq!(prints(&["outbox", "clean", "-d", &url]), "deleted 0 published events\n");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(
            prints(&["outbox", "clean", "-d", &url, "--older-than", "1ms"]),
            "deleted 1 published event\n"
        );
        assert_eq!(prints(&["outbox", "retry", "-d", &url]), "no event has failed\n");
    }
}

#[test]
fn a_refused_event_stops_its_aggregate_only_and_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let settings = ["-X", "message.max.bytes=1000"];
    let broker = Process::start(&directory.path().join("broker"), &settings);
    let url = postgres();
    prints(&["sql", "init", "-d", &url]);
    psql(
        &url,
        "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload)
         VALUES ('orders', 'big', 'OrderPlaced', repeat(md5(random()::text), 1000)::bytea);
         INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload) VALUES ('orders', 'big', 'OrderPaid', 'x');
         INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload) VALUES ('orders', 'small', 'OrderPlaced', 'x');",
    );
    let mut relay = RelayProcess::start(&["-d", &url, "-b", &broker.address]);
    relay.running();
    let status = until(&url, |status| status["unpublished"] == 2 && status["failed"] == 1);
    let failed = &status["failed_events"][0];
    assert_eq!(failed["aggregate_id"], "big", "{status:#}");
    assert!(failed["error"].as_str().unwrap().len() > 10, "{status:#}");
    let shown = prints(&["outbox", "status", "-d", &url]);
    assert!(
        shown.contains("AGGREGATE-TYPE") && shown.contains(failed["error"].as_str().unwrap()),
        "{shown}"
    );
    let listed = prints(&["outbox", "list", "--failed", "-d", &url]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    // The operator repairs the row.
    psql(
        &url,
        "UPDATE milena_outbox SET payload = 'small enough' WHERE type = 'OrderPlaced' AND aggregateid = 'big'",
    );
    prints(&["outbox", "retry", "-d", &url]);
    until(&url, |status| status["unpublished"] == 0);
    relay.terminate();
}

#[test]
fn settings_come_from_a_file_and_wrong_ones_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Process::start(&directory.path().join("broker"), &[]);
    let url = postgres();
    prints(&["sql", "init", "-d", &url]);
    let file = directory.path().join("relay.toml");
    let path = file.to_str().unwrap();
    let write = |text: &str| {
        let kafka = format!("[kafka]\n\"bootstrap.servers\" = \"{}\"\n", broker.address);
        std::fs::write(&file, format!("database = \"{url}\"\n{text}\n{kafka}")).unwrap();
    };
    write("name = \"by file\"\nlease = \"9s\"\nkeep_published = \"forever\"");
    let mut relay = RelayProcess::start(&["--config", path]);
    assert_eq!(relay.running(), None);
    until(&url, |status| {
        let relay = &status["relays"][0];
        relay["name"].as_str().is_some_and(|name| name.starts_with("by file"))
            && relay["lease_ms"].as_u64().is_some_and(|lease| lease <= 9_000)
    });
    relay.terminate();

    write("leese = \"9s\"");
    let message = fails(&["outbox", "relay", "--config", path]);
    assert!(
        message.contains("leese is not a known key; did you mean lease?"),
        "{message}"
    );
    write("lease = \"1s\"");
    let message = fails(&["outbox", "relay", "--config", path]);
    assert!(message.contains("lease"), "{message}");
    write("");
    let message = fails(&["outbox", "relay", "--config", path, "-X", "sasl.password=hunter2"]);
    assert!(
        message.contains("-X sasl.password has a secret") && !message.contains("hunter2"),
        "{message}"
    );
    let message = fails(&["outbox", "relay", "-d", &postgres(), "-b", &broker.address]);
    assert!(message.contains("milena sql init"), "{message}");
    let output = milena(&["outbox", "relay", "-d", &url, "-b", "127.0.0.1:1"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && message.contains("cannot reach 127.0.0.1:1"),
        "{message}"
    );
}

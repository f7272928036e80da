//! A Python program that writes to the outbox with plain SQL.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use milena_test::PostgresServer;

use crate::{
    process::Process,
    programs::{read_as, run, xtask},
};

/// A process that ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn milena() -> Command {
    Command::new(env!("CARGO_BIN_EXE_milena"))
}

#[test]
fn orders_of_a_python_program_are_announced() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let server = PostgresServer::start();
    let url = server.create_database();
    run(milena().args(["sql", "init", "-d", &url]), "");
    let mut relay = milena();
    relay.args(["outbox", "relay", "-d", &url, "-b", &broker.address]);
    let mut relay = Killed(relay.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(relay.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "RUNNING\n");

    let orders = "book 1250\npen 0\nlamp 8900\nbook 1300\n";
    let said = run(xtask().args(["client", "psycopg", &url]), orders);
    let refused: Vec<&str> = said.lines().filter(|line| line.starts_with("order ")).collect();
    assert_eq!(refused.len(), 2, "{said}");
    assert!(
        refused[0].starts_with("order pen refused") && refused[1].starts_with("order book refused"),
        "{said}"
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.psql(&url, "SELECT count(*) FROM milena_outbox WHERE published_at IS NULL") != "0" {
        assert!(Instant::now() < deadline, "the relay does not publish");
    }
    let mut records = read_as(&broker.address, "orders.events", 0, "read_committed", "%k %s\n");
    records.sort_unstable();
    let expected = [
        r#"book {"order": "book", "cents": 1250}"#,
        r#"lamp {"order": "lamp", "cents": 8900}"#,
    ];
    assert_eq!(records, expected);
}

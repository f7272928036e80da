//! `milena sql`, and the arguments of all commands with a database.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    sync::LazyLock,
};

use milena_test::{PostgresServer, TestBroker};
use serde_json::Value;

use crate::command::{fails, milena};

static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// URL of an empty database in PostgreSQL.
pub fn postgres() -> String {
    SERVER.create_database()
}

/// Runs statements with `psql`.
pub fn psql(url: &str, statements: &str) -> String {
    SERVER.psql(url, statements)
}

/// URL of a file of SQLite that does not exist yet.
pub fn sqlite(directory: &tempfile::TempDir) -> String {
    format!("sqlite://{}", directory.path().join("app.db").display())
}

/// Output of a command that must succeed.
pub fn prints(arguments: &[&str]) -> String {
    let output = milena(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_are_created_once_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    for url in [postgres(), sqlite(&directory)] {
        let created = prints(&["sql", "init", "--database", &url]);
        assert!(created.starts_with("applied 01_outbox\napplied 02_"), "{created}");
        assert_eq!(
            prints(&["sql", "init", "--database", &url]),
            "the tables are up to date\n"
        );
        let shown = prints(&["sql", "status", "--database", &url]);
        assert!(shown.starts_with("VERSION  NAME  "), "{shown}");
        let shown = prints(&["sql", "status", "-d", &url, "--output", "json"]);
        let steps: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(steps[0]["name"], "01_outbox");
        assert!(steps[0]["applied_at"].is_string(), "{shown}");
    }
}

#[test]
fn missing_tables_fail_and_name_the_remedy() {
    let url = postgres();
    let message = fails(&["sql", "status", "--database", &url]);
    assert_eq!(
        message,
        "milena: tables are missing; create them with milena sql init\n"
    );
    for command in ["status", "list", "retry", "clean"] {
        let message = fails(&["outbox", command, "--database", &url]);
        assert_eq!(
            message,
            "milena: the tables of the outbox are missing; create them with milena sql init\n"
        );
    }
    // A command that shows something creates no file.
    let directory = tempfile::tempdir().unwrap();
    let message = fails(&["sql", "status", "--database", &sqlite(&directory)]);
    assert!(message.contains("unable to open database file"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_printed_script_creates_the_same_tables() {
    let url = postgres();
    psql(&url, &prints(&["sql", "print"]));
    assert_eq!(prints(&["sql", "init", "-d", &url]), "the tables are up to date\n");

    let directory = tempfile::tempdir().unwrap();
    let url = sqlite(&directory);
    let script = prints(&["sql", "print", "--database", &url]);
    assert_eq!(script, prints(&["sql", "print", "--dialect", "sqlite"]));
    let python = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())";
    let mut child = Command::new("python3")
        .args(["-c", python])
        .arg(directory.path().join("app.db"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(prints(&["sql", "init", "-d", &url]), "the tables are up to date\n");
}

#[test]
fn a_password_is_never_shown() {
    let message = fails(&["sql", "status", "-d", "postgres://app:hunter2@127.0.0.1:1/shop"]);
    assert!(
        message.contains("every user of this machine can see") && message.contains("MILENA_DATABASE_URL"),
        "{message}"
    );
    assert!(!message.contains("hunter2"), "{message}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    let output = command
        .args(["-vv", "sql", "status", "--wait", "1ms"])
        .env("MILENA_DATABASE_URL", "postgres://app:hunter2@127.0.0.1:1/shop")
        .output()
        .unwrap();
    let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        shown.contains("milena: cannot connect to PostgreSQL at 127.0.0.1:1"),
        "{shown}"
    );
    assert!(!output.status.success() && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_database_comes_from_references_and_the_environment() {
    let url = postgres();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secrets.properties");
    // The server takes any password.
    fs::write(&file, format!("password=a@b/c?\nurl={url}\n")).unwrap();
    let whole = format!("${{file:{}:url}}", file.display());
    prints(&["sql", "init", "-d", &whole]);
    let reference = format!("postgres://postgres:${{file:{}:password}}@", file.display());
    prints(&["sql", "status", "-d", &url.replace("postgres://postgres@", &reference)]);
    let status = Command::new(env!("CARGO_BIN_EXE_milena"))
        .args(["sql", "status"])
        .env("MILENA_DATABASE_URL", &url)
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");

    let message = fails(&["sql", "status"]);
    assert!(
        message.starts_with("milena: no database given; use --database URL"),
        "{message}"
    );
    let message = fails(&["sql", "status", "-d", "mysql://db/shop"]);
    assert!(message.contains("the scheme `mysql`"), "{message}");
    let message = fails(&["sql", "status", "-d", "${env:MILENA_NO_SUCH_VARIABLE}"]);
    assert!(message.contains("MILENA_NO_SUCH_VARIABLE"), "{message}");
}

#[test]
fn processed_events_are_deleted_when_no_topic_has_their_records() {
    let url = postgres();
    prints(&["sql", "init", "--database", &url]);
    let broker = TestBroker::start();
    broker.create_topic_with("orders", 1, &[("retention.ms", "86400000"), ("segment.ms", "3600000")]);
    psql(
        &url,
        "INSERT INTO milena_processed_events (consumer_group, handler, event_id, processed_at)
            SELECT 'billing', 'orders', 'event ' || days, now() - make_interval(days => days) FROM generate_series(0, 39) AS days",
    );
    let address = broker.bootstrap_servers();
    let common = ["sql", "clean", "-d", &url, "-b", &address, "--group", "billing"];
    let error = fails(&[&common[..], &["--keep", "1d"]].concat());
    assert!(
        error.contains("topic orders keeps records for up to 90000000 ms"),
        "{error}"
    );
    let done = prints(&common);
    assert_eq!(
        done,
        "deleted 10 processed events of group billing that were older than 30.0 days\n"
    );
    let done = prints(&[&common[..], &["--keep", "2d", "--output", "json"]].concat());
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!(
        (&done["events"], &done["topics"]),
        (&Value::from(28), &serde_json::json!(["orders"]))
    );
}

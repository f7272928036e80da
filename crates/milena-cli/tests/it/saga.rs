//! `milena saga`.

use std::fs;

use serde_json::Value;

use crate::{
    command::fails,
    sql::{postgres, prints, psql},
};

const STATE: &str = r#"{"owner":{"phase":"compensating","is_started":true,"cause":{"kind":"failed","step":"charge"},
    "stuck":{"kind":"compensation_timed_out","step":"reserve"},"steps":{"reserve":{"status":"compensating","attempts":4},
    "charge":{"status":"failed"},"ship":{"status":"skipped"}}}}"#;

/// A database with a stuck saga, a running one, and the part of a service that is not the owner.
fn shop() -> String {
    let url = postgres();
    prints(&["sql", "init", "--database", &url]);
    let now_ms = "(extract(epoch from now()) * 1000)::bigint";
    let row = |id: &str, participant: &str, status: &str, state: &str, reason: &str| {
        format!(
            "INSERT INTO milena_sagas VALUES ('{id}', 'order', '{participant}', '{status}', 3, '{state}', NULL, NULL, {reason}, \
             {now_ms} - 7200000, {now_ms} - 60000)"
        )
    };
    let running = r#"{"owner":{"phase":"running","is_started":true,"steps":{"reserve":{"status":"awaited"}}}}"#;
    let part = r#"{"steps":{"reserve":{"phase":"done"}}}"#;
    psql(
        &url,
        &row(
            "4711",
            "orders",
            "stuck",
            STATE,
            "'compensation of step reserve timed out'",
        ),
    );
    psql(&url, &row("4712", "orders", "running", running, "NULL"));
    psql(&url, &row("4713", "inventory", "done", part, "NULL"));
    let audit = "INSERT INTO milena_saga_audit VALUES ('4711', 'order', 'orders', 1, 0, 'event OrderCreated x', 'started', NULL)";
    psql(&url, audit);
    url
}

#[test]
fn open_sagas_are_listed_and_shown() {
    let url = shop();
    let listed = prints(&["saga", "list", "-d", &url]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], "ID    TYPE   STATUS   AGE  CHANGED  REASON");
    assert_eq!(
        lines[1],
        "4711  order  stuck    2h   1m       compensation of step reserve …"
    );
    assert_eq!(lines[2], "4712  order  running  2h   1m       -");
    assert_eq!(lines.len(), 3);
    let stuck = prints(&["saga", "list", "-d", &url, "--status", "stuck", "-o", "json"]);
    let stuck: Value = serde_json::from_str(&stuck).unwrap();
    assert_eq!(stuck[0]["id"], "4711");
    assert_eq!(stuck[0]["reason"], "compensation of step reserve timed out");
    assert_eq!(stuck.as_array().unwrap().len(), 1);
    assert_eq!(
        prints(&["saga", "list", "-d", &url, "--unchanged-for", "1h"])
            .lines()
            .count(),
        1
    );
    let shown = prints(&["saga", "show", "4711", "-d", &url]);
    for part in ["STATUS       stuck", "reserve  compensating  4", "event OrderCreated x"] {
        assert!(shown.contains(part), "{shown}");
    }
    let shown = prints(&["saga", "show", "4713", "-d", &url, "-o", "yaml"]);
    assert!(shown.contains("role: participant"), "{shown}");
    let message = fails(&["saga", "show", "1", "-d", &url]);
    assert_eq!(message, "milena: no saga has the id \"1\" in this database\n");
}

#[test]
fn a_change_by_hand_is_stored_with_its_reason() {
    let url = shop();
    let change = |command: &'static str, id: &'static str| {
        let arguments = [
            "saga",
            command,
            id,
            "-d",
            &url,
            "--reason",
            "ticket 12",
            "--user",
            "anna",
            "--timeout",
            "0s",
        ];
        arguments.map(str::to_owned)
    };
    let run = |arguments: &[String]| prints(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let refuse = |arguments: &[String]| fails(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // No application runs, so the command waits.
    assert_eq!(run(&change("retry", "4711")), "retry of saga 4711 is requested\n");
    let line = psql(
        &url,
        "SELECT actor, action, reason FROM milena_saga_audit WHERE saga_id = '4711' AND version = 4",
    );
    assert_eq!(line, "anna|retry requested|ticket 12");
    let shown = prints(&["saga", "show", "4711", "-d", &url]);
    assert!(shown.contains("PENDING      retry by anna: ticket 12"), "{shown}");
    let message = refuse(&change("close", "4711"));
    assert!(
        message.contains("has a command that its application has not performed yet: retry by anna"),
        "{message}"
    );
    let message = refuse(&change("compensate", "4713"));
    assert_eq!(
        message,
        "milena: inventory only takes part in the saga \"4713\" of type order; use the database of its owner\n"
    );
    let message = fails(&["saga", "close", "4712", "-d", &url, "--reason", " ", "--user", "anna"]);
    assert_eq!(message, "milena: the reason is empty; it is kept in the audit trail\n");
    assert!(fails(&["saga", "close", "4712", "-d", &url]).contains("--reason"));
}

#[test]
fn a_definition_is_checked_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("order.toml");
    let text = include_str!("../../../milena/examples/order_saga.toml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let drawn = prints(&["saga", "check", file]);
    assert!(
        drawn.contains("reserve") && drawn.contains("InventoryReleased"),
        "{drawn}"
    );
    assert!(prints(&["saga", "check", file, "--output", "mermaid"]).contains("flowchart"));
    fs::write(
        file,
        text.replace("on = \"InventoryReserved\"", "on = \"InventoryCounted\""),
    )
    .unwrap();
    let message = fails(&["saga", "check", file]);
    assert!(message.contains("InventoryCounted"), "{message}");
}

#[test]
fn missing_tables_name_the_remedy() {
    let url = postgres();
    let message = fails(&["saga", "list", "-d", &url]);
    assert!(message.contains("milena sql init"), "{message}");
}

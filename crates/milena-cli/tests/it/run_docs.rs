//! The examples of `docs/run.md`, run as they are printed there.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command},
};

use crate::{
    application::{Application, header, records, until},
    client::batch,
    command::milena,
    process::Process,
};

const PAGE: &str = include_str!("../../../../docs/run.md");

/// The text of the code block whose fence has this info string.
fn example(label: &str) -> &'static str {
    let (_, behind) = PAGE
        .split_once(&format!("```{label}\n"))
        .unwrap_or_else(|| panic!("docs/run.md has no block {label:?}"));
    behind.split_once("```").unwrap().0
}

fn broker_with_orders(dir: &Path) -> Process {
    let broker = Process::start(&dir.join("data"), &[]);
    let mut client = broker.client();
    client.create_topic("orders", 1, &[]);
    client.create_topic("bills", 1, &[]);
    let orders = [
        r#"{"id":1,"cents":500}"#,
        r#"{"id":2,"cents":0}"#,
        r#"{"id":3,"cents":70}"#,
    ];
    client.produce("orders", 0, batch(&orders));
    broker
}

/// Checks for two bills, and a dead letter for the order that costs nothing.
fn are_billed(broker: &Process, application: &Application, reason: &str) {
    let done = || records(broker, "bills").len() == 2 && records(broker, "orders.dlq").len() == 1;
    until("two bills and a dead letter", done, || application.log());
    let bills = records(broker, "bills");
    assert_eq!(bills[0]["value"], r#"{"order": 1, "cents": 500}"#);
    let dead = records(broker, "orders.dlq");
    assert_eq!(dead[0]["value"], r#"{"id":2,"cents":0}"#);
    let found = header(&dead[0], "dlq.failure.reason");
    assert!(found.contains(reason), "{found}");
}

#[test]
fn the_program_in_python_runs_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_orders(dir.path());
    fs::write(dir.path().join("charge.py"), example("python charge.py")).unwrap();
    let arguments = ["-b", broker.address.as_str()];
    let application = Application::start(dir.path(), example("toml app.toml"), &arguments);
    are_billed(&broker, &application, "an order must cost something");
    // A value that is not an order ends the program with a traceback, which the dead letter carries.
    broker.client().produce("orders", 0, batch(&["garbage"]));
    let done = || records(&broker, "orders.dlq").len() == 2;
    until("the dead letter of a crash", done, || application.log());
    let dead = records(&broker, "orders.dlq");
    assert_eq!(header(&dead[1], "dlq.failure.exception"), "program.exited");
    let stack = header(&dead[1], "dlq.stacktrace");
    assert!(stack.contains("JSONDecodeError"), "{stack}");
    application.stop();
}

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_service_in_python_runs_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with_orders(dir.path());
    let script = dir.path().join("service.py");
    fs::write(&script, example("python service.py")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut service = Command::new("python3");
    let _service = Service(service.arg(&script).env("PORT", &port).spawn().unwrap());
    let arguments = ["-b", broker.address.as_str()];
    let text = example("toml service.toml");
    let application = Application::start_with(dir.path(), text, &arguments, &[("PORT", &port)]);
    are_billed(
        &broker,
        &application,
        "responded with 422: an order must cost something",
    );
    application.stop();
}

#[test]
fn the_page_is_named_in_the_help() {
    let help = milena(&["run", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("docs/run.md"), "{help}");
}

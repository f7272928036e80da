//! One process of an application under test.

use std::{io::Read, path::Path, sync::Arc, thread, time::Duration};

use milena_app::prelude::*;

use crate::handled_log::{KEYS, KILLER, LogWriter, key};

/// The first argument of a worker process. These follow: address, protocol, topic, name, task, log file.
pub const ROLE: &str = "work";
/// Handles each record with a short delay and appends it to the handled log.
pub const HANDLE: &str = "handle";
/// As above, but the records of one key per partition never finish.
pub const HANG: &str = "hang";
/// As above, but one record crashes the process.
pub const ABORT: &str = "abort";
/// Copies each record in a transaction.
pub const COPY: &str = "copy";

pub fn group(topic: &str, protocol: &str) -> String {
    format!("{topic}-{protocol}")
}

/// The topic of the copies.
pub fn output(topic: &str, protocol: &str) -> String {
    format!("{topic}-copy-{protocol}")
}

pub fn main(words: &[String]) {
    // The log is kept for the analysis of a failed test.
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    let [address, protocol, topic, name, task, handled_log] = words else {
        panic!("wrong arguments: {words:?}");
    };
    end_with_parent();
    let app = App::new(address)
        .group(group(topic, protocol))
        .instance(name)
        .consumer("group.protocol", protocol);
    let app = match protocol.as_str() {
        // A short session timeout where processes are killed. In the consumer protocol the broker sets it.
        "classic" => app
            .consumer("heartbeat.interval.ms", 300)
            .consumer("session.timeout.ms", if task == HANDLE { 45_000 } else { 6_000 }),
        _ => app,
    };
    let app = if task == COPY {
        copy(app, topic, output(topic, protocol))
    } else {
        handle(app, topic, LogWriter::open(Path::new(handled_log), name), task)
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(app.run_until(shutdown_signal()));
    ended.unwrap_or_else(|error| panic!("{topic}, {protocol}, {name}: {error}"));
}

fn handle(app: App, topic: &str, log: LogWriter, task: &str) -> App {
    let log = Arc::new(log);
    let (hangs, aborts) = (task == HANG, task == ABORT);
    let handler = move |Event(number): Event<i64>, cx: Cx| {
        let log = Arc::clone(&log);
        let record = (cx.record().partition(), number);
        async move {
            log.begins(record);
            if hangs && number % KEYS == 3 {
                std::future::pending::<()>().await;
            }
            if aborts && record == KILLER {
                std::process::abort();
            }
            // Different delays, so that later records finish first.
            tokio::time::sleep(Duration::from_millis(u64::try_from(number * 7 % 20).unwrap())).await;
            log.ends(record);
        }
    };
    app.on(topic, handler, |policy| policy.timeout(None))
}

fn copy(app: App, topic: &str, output: String) -> App {
    let handler = move |Event(number): Event<i64>, cx: Cx| {
        let copy = OutRecord::new(output.as_str()).key(key(cx.record().partition(), number));
        async move {
            tokio::time::sleep(Duration::from_millis(u64::try_from(number * 7 % 20).unwrap())).await;
            Done::from(copy.value(number.to_string()))
        }
    };
    app.exactly_once(topic, handler, |policy| policy)
}

/// Exits with its parent, so that a failed test leaves no process behind.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        std::process::exit(2);
    });
}

//! One process of an application.

use std::{io::Read, path::Path, sync::Arc, thread, time::Duration};

use milena_app::prelude::*;

use crate::ledger::{KEYS, KILLER, Pen, key};

/// The first argument of such a process. Address, protocol, topic, its name, its task and the file of the ledger follow.
pub const WORD: &str = "work";
/// Takes a moment for each record and writes into the ledger.
pub const HANDLE: &str = "handle";
/// The same, but of one key of each partition no record ever ends.
pub const HANG: &str = "hang";
/// The same, but one record ends the process.
pub const ABORT: &str = "abort";
/// Copies each record in a transaction.
pub const COPY: &str = "copy";

pub fn group(topic: &str, protocol: &str) -> String {
    format!("{topic}-{protocol}")
}

/// Where copies go.
pub fn output(topic: &str, protocol: &str) -> String {
    format!("{topic}-copy-{protocol}")
}

pub fn main(words: &[String]) {
    // For whoever must find out what went wrong.
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    let [address, protocol, topic, name, task, ledger] = words else {
        panic!("wrong arguments: {words:?}");
    };
    end_with_parent();
    let app = App::new(address)
        .group(group(topic, protocol))
        .instance(name)
        .consumer("group.protocol", protocol);
    let app = match protocol.as_str() {
        // Who is gone is missed soon, but not in a test in which nobody is killed. In the other protocol the broker says.
        "classic" => app
            .consumer("heartbeat.interval.ms", 300)
            .consumer("session.timeout.ms", if task == HANDLE { 45_000 } else { 6_000 }),
        _ => app,
    };
    let app = if task == COPY {
        copy(app, topic, output(topic, protocol))
    } else {
        handle(app, topic, Pen::open(Path::new(ledger), name), task)
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(app.run_until(shutdown_signal()));
    ended.unwrap_or_else(|error| panic!("{topic}, {protocol}, {name}: {error}"));
}

fn handle(app: App, topic: &str, pen: Pen, task: &str) -> App {
    let pen = Arc::new(pen);
    let (hangs, aborts) = (task == HANG, task == ABORT);
    let handler = move |Event(number): Event<i64>, cx: Cx| {
        let pen = Arc::clone(&pen);
        let place = (cx.record().partition(), number);
        async move {
            pen.begins(place);
            if hangs && number % KEYS == 3 {
                std::future::pending::<()>().await;
            }
            if aborts && place == KILLER {
                std::process::abort();
            }
            // Some take longer than others, so that those behind them are done first.
            tokio::time::sleep(Duration::from_millis(u64::try_from(number * 7 % 20).unwrap())).await;
            pen.ends(place);
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

/// Nobody is left behind by a test that has failed.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        std::process::exit(2);
    });
}

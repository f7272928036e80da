//! Handlers of `milena run` that are programs: how they start, fail, hang and end.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::application::{
    Application, broker_with, committed, dead_letters, head, header, is_committed, script, until,
};

fn is_alive(pid: &str) -> bool {
    let mut signal = Command::new("kill");
    signal.args(["-0", pid]).stderr(Stdio::null());
    signal.status().unwrap().success()
}

#[test]
fn a_program_that_cannot_start_ends_the_run_and_no_record_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a", "b", "c"]);
    for (command, reason) in [
        ("[\"nosuchprogram\"]", "nosuchprogram"),
        ("[\"sh\", \"/nosuch/handler.sh\"]", "/nosuch/handler.sh"),
    ] {
        let handler = format!("[[handlers]]\ntopic = \"letters\"\ncommand = {command}\nretry = {{ attempts = 1 }}\n");
        let log = Application::fails(dir.path(), &(head(&broker) + &handler), &[]);
        assert!(log.contains(reason), "{log}");
        assert!(log.contains("app.toml"), "{log}");
        assert_eq!(committed(&broker), None, "{log}");
        assert_eq!(dead_letters(&broker).len(), 0, "{log}");
    }
}

#[test]
fn a_program_that_does_not_start_again_pauses_its_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a", "b", "c", "d"]);
    fs::write(dir.path().join("once"), "").unwrap();
    let handler = script(
        dir.path(),
        r#"
        if [ -e broken ]; then echo "no database" >&2; exit 3; fi
        while read -r line; do
            reply
            if [ -e once ]; then rm once; touch broken; exit 0; fi
        done
        "#,
    );
    let application = Application::start(dir.path(), &(head(&broker) + &handler), &[]);
    application.logs("is down, waiting");
    assert!(application.log().contains("no database"), "{}", application.log());
    fs::remove_file(dir.path().join("broken")).unwrap();
    is_committed(&broker, &application, 4);
    assert_eq!(dead_letters(&broker).len(), 0, "{}", application.log());
    application.stop();
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["good", "hang", "good"]);
    let handler = script(
        dir.path(),
        r#"
        while read -r line; do
            case "$line" in
                *'"value":"hang"'*) sleep 1000 & echo $! > child; echo $$ > parent; wait ;;
                *) reply ;;
            esac
        done
        "#,
    );
    let file = format!("{}{handler}timeout = \"1s\"\n", head(&broker));
    let application = Application::start(dir.path(), &file, &[]);
    is_committed(&broker, &application, 3);
    let log = application.log();
    assert!(log.contains("timed out after 1 s (handlers[0].timeout)"), "{log}");
    assert!(!log.contains("slow"), "{log}");
    for name in ["child", "parent"] {
        let pid = fs::read_to_string(dir.path().join(name)).unwrap();
        until(
            "the end of a hung program",
            || !is_alive(pid.trim()),
            || name.to_owned(),
        );
    }
    let dead = dead_letters(&broker);
    assert_eq!(dead.len(), 1, "{log}");
    assert_eq!(dead[0]["value"], "hang");
    assert_eq!(header(&dead[0], "dlq.failure.exception"), "program.timeout");
    application.stop();
}

#[test]
fn a_program_that_is_slow_to_start_has_time_for_its_first_reply() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a"]);
    let handler = script(dir.path(), "sleep 2; while read -r line; do reply; done");
    let file = format!("{}{handler}timeout = \"250ms\"\n", head(&broker));
    let application = Application::start(dir.path(), &file, &[]);
    is_committed(&broker, &application, 1);
    assert_eq!(dead_letters(&broker).len(), 0, "{}", application.log());
    application.stop();
}

#[test]
fn a_program_that_dies_with_a_record_leaves_its_last_lines_in_the_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["good", "crash", "good"]);
    let handler = script(
        dir.path(),
        r#"
        while read -r line; do
            case "$line" in
                *'"value":"crash"'*) echo "ValueError: no such customer" >&2; exit 7 ;;
                *) reply ;;
            esac
        done
        "#,
    );
    let application = Application::start(dir.path(), &(head(&broker) + &handler), &[]);
    is_committed(&broker, &application, 3);
    let dead = dead_letters(&broker);
    assert_eq!(dead.len(), 1, "{}", application.log());
    assert_eq!(header(&dead[0], "dlq.failure.exception"), "program.exited");
    let reason = header(&dead[0], "dlq.failure.reason");
    assert!(reason.contains("exit status: 7"), "{reason}");
    let stack = header(&dead[0], "dlq.stacktrace");
    assert!(stack.contains("ValueError: no such customer"), "{stack}");
    // The program's stderr is in the log, too.
    assert!(application.log().contains("ValueError: no such customer"));
    application.stop();
}

#[test]
fn ctrl_c_costs_no_record_an_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["slow"]);
    let handler = script(
        dir.path(),
        "while read -r line; do echo $$ > started; sleep 1000; reply; done",
    );
    let file = format!("{}[app]\ndrain = \"1s\"\n{handler}timeout = \"none\"\n", head(&broker));
    for signal in ["INT", "TERM"] {
        let started = dir.path().join("started");
        let application = Application::start(dir.path(), &file, &[]);
        until("the record in the program", || started.exists(), || application.log());
        let pid = fs::read_to_string(&started).unwrap();
        application.signal_group(signal);
        let status = application.wait();
        let log = fs::read_to_string(dir.path().join("stderr")).unwrap();
        assert!(status.success(), "{status}\n{log}");
        assert_eq!(committed(&broker).unwrap_or(0), 0, "{log}");
        assert_eq!(dead_letters(&broker).len(), 0, "{log}");
        assert!(!is_alive(pid.trim()), "the program outlives the run");
        fs::remove_file(&started).unwrap();
    }
}

#[test]
fn a_program_that_is_told_to_end_by_an_operator_costs_no_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a"]);
    let handler = script(
        dir.path(),
        r#"
        while read -r line; do
            if [ ! -e told ]; then echo $$ > told; kill -s TERM $$; fi
            reply
        done
        "#,
    );
    let application = Application::start(dir.path(), &(head(&broker) + &handler), &[]);
    is_committed(&broker, &application, 1);
    assert_eq!(dead_letters(&broker).len(), 0, "{}", application.log());
    application.stop();
}

//! Bootstrap addresses, and brokers that cannot be reached.

use std::{
    net::TcpListener,
    process::{Command, Output, Stdio},
};

use crate::{
    command::{fails, milena},
    process::Process,
};

/// An address without a listener.
fn refused() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

const COMMANDS: [&[&str]; 8] = [
    &["topic", "list"],
    &["consume", "letters"],
    &["produce", "letters"],
    &["group", "describe", "readers"],
    &["cluster", "info"],
    &["config", "describe", "broker", "1"],
    &["perf", "produce", "letters", "-n", "1"],
    &["topic", "skew", "letters"],
];

#[test]
fn a_refused_address_is_told_at_once_and_ends_the_command() {
    let address = refused();
    for command in COMMANDS {
        let message = fails(&[command, &["-b", &address, "--wait", "300ms"]].concat());
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines.len(), 2, "{command:?}: {message}");
        let reason = format!("{address}: connection refused");
        assert_eq!(lines[0], format!("milena: {reason}; still trying, Ctrl-C to stop"));
        assert!(
            lines[1].starts_with(&format!("milena: cannot reach {reason}")),
            "{message}"
        );
        assert!(lines[1].contains("-b HOST:PORT or MILENA_BOOTSTRAP"), "{message}");
    }
    let quiet = fails(&["topic", "list", "-q", "-b", &address, "--wait", "1ms"]);
    assert_eq!(quiet.lines().count(), 1, "{quiet}");
}

#[test]
fn a_name_that_is_not_known_is_told() {
    let message = fails(&["topic", "list", "-b", "nowhere.invalid:9092", "--wait", "300ms"]);
    assert!(message.contains("nowhere.invalid:9092: unknown host"), "{message}");
}

#[test]
fn a_client_that_gives_up_sooner_is_not_waited_for() {
    let message = fails(&["topic", "list", "-b", &refused(), "-X", "default.api.timeout.ms=300"]);
    assert!(message.contains("cannot reach"), "{message}");
}

#[test]
fn a_command_waits_for_a_broker_that_is_about_to_start() {
    let dir = tempfile::tempdir().unwrap();
    let address = refused();
    let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
        .args(["topic", "list", "-b", &address, "--wait", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first notice: the first attempt has failed.
    let mut first = [0; 7];
    std::io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(&first, b"milena:");
    let _broker = Process::start_at(&address, dir.path(), &[]);
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn one_address_of_several_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let servers = format!("{},{}", refused(), broker.address);
    let output = milena(&["topic", "list", "-b", &servers]);
    assert!(output.status.success(), "{output:?}");
    let notices = String::from_utf8(output.stderr).unwrap();
    assert!(!notices.contains("still trying"), "{notices}");
}

fn with_variable(value: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command.env("MILENA_BOOTSTRAP", value).args(arguments).output().unwrap()
}

#[test]
fn the_address_comes_from_a_flag_or_the_environment_or_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    for name in [
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "--bootstrap-servers",
        "--brokers",
    ] {
        let output = with_variable(&refused(), &["topic", "list", name, &broker.address]);
        assert!(output.status.success(), "{name}: {output:?}");
    }
    let output = with_variable(&broker.address, &["topic", "list"]);
    assert!(output.status.success(), "{output:?}");
    // A file named on the command line overrides the environment.
    let file = dir.path().join("client.properties");
    std::fs::write(&file, format!("bootstrap.servers={}\n", broker.address)).unwrap();
    for option in ["--command-config", "--config", "-F"] {
        let output = with_variable(&refused(), &["topic", "list", option, file.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
    }
    let help = milena(&["topic", "list", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("[env: MILENA_BOOTSTRAP]") && help.contains("localhost:9092"),
        "{help}"
    );
}

#[test]
fn a_refused_log_in_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let broker_config = write(
        "broker.properties",
        &format!(
            "listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=PLAIN\n\
             listener.name.sasl_plaintext.plain.sasl.jaas.config={module} user_alice=\"right\";\n"
        ),
    );
    let client_config = write(
        "client.properties",
        &format!(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\
             sasl.jaas.config={module} username=\"alice\" password=\"wrong\";\n"
        ),
    );
    let broker = Process::start(&dir.path().join("data"), &["--config", &broker_config]);
    let list = [
        "topic",
        "list",
        "-b",
        &broker.address,
        "--command-config",
        &client_config,
    ];
    let message = fails(&list);
    assert_eq!(message.matches("Invalid username or password").count(), 1, "{message}");
    assert!(message.starts_with("milena: "), "{message}");
    let verbose = fails(&[&list[..], &["-v"]].concat());
    assert!(verbose.contains("authentication_failed"), "{verbose}");
}

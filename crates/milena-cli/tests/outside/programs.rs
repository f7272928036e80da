//! Programs of others, and their output.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Runs a program with this input. Returns its output; a failure of the program fails the test.
pub fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}; CONTRIBUTING.md says what is needed"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {problem}{text}");
    text
}

/// Runs a program that may fail. Returns whether it succeeded, and its output.
pub fn run_any(command: &mut Command) -> (bool, String) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}; CONTRIBUTING.md says what is needed"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A `cargo xtask` command.
pub fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--"]);
    // Only Java's quick compiler: a run of a second or two ends before the slow one pays off.
    command.env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1");
    command
}

/// One of Kafka's tools, with `--bootstrap-server`.
pub fn kafka_tool(address: &str, name: &str, arguments: &[&str], input: &str) -> String {
    let mut command = xtask();
    command.args(["kafka", "tool", name, "--bootstrap-server", address]);
    run(command.args(arguments), input)
}

/// As [`kafka_tool`], for a tool that may fail.
pub fn any_kafka_tool(address: &str, name: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = xtask();
    command.args(["kafka", "tool", name, "--bootstrap-server", address]);
    run_any(command.args(arguments))
}

/// librdkafka's command line.
pub fn kcat(address: &str, arguments: &[&str], input: &str) -> String {
    run(
        Command::new("kcat").args(["-b", address, "-m", "30"]).args(arguments),
        input,
    )
}

/// The format of `kcat` and `milena consume` that prints all parts of a record.
pub const FORMAT: &str = "%o %T key %K %k value %S %s headers %h\\n";

/// All records of a partition, one line each, with all parts of a record.
pub fn read_all(address: &str, topic: &str, partition: usize) -> Vec<String> {
    // The default of librdkafka.
    read_as(address, topic, partition, "read_committed", FORMAT)
}

/// All records of a partition with this `isolation.level`, one line each in this format.
pub fn read_as(address: &str, topic: &str, partition: usize, level: &str, format: &str) -> Vec<String> {
    let (partition, level) = (partition.to_string(), format!("isolation.level={level}"));
    let read = ["-C", "-t", topic, "-p", &partition, "-o", "beginning", "-e", "-q"];
    let how = ["-X", "fetch.wait.max.ms=10", "-X", &level, "-f", format];
    let read = kcat(address, &[&read[..], &how].concat(), "");
    read.lines().map(str::to_owned).collect()
}

/// A real Apache Kafka of one broker, stopped and removed with the test.
pub struct Kafka {
    dir: tempfile::TempDir,
    port: u16,
}

impl Kafka {
    pub fn start(port: u16) -> Self {
        // Its own compaction would change the files that are compared.
        Self::start_with(port, &["--set", "log.cleaner.enable=false"])
    }

    /// With additional options of `cargo xtask kafka up`, such as `--secured` and `--acls`.
    pub fn start_with(port: u16, options: &[&str]) -> Self {
        let kafka = Self {
            dir: tempfile::tempdir().unwrap(),
            port,
        };
        kafka.control("up", &[&["--port", &port.to_string()], options].concat());
        kafka
    }

    pub fn stop(&self) {
        self.control("down", &[]);
    }

    pub fn start_again(&self) {
        self.control("start", &["1"]);
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.broker_dir().join("data")
    }

    /// The broker's log since its creation.
    pub fn output(&self) -> String {
        fs::read_to_string(self.broker_dir().join("output")).unwrap()
    }

    fn broker_dir(&self) -> PathBuf {
        self.dir.path().join("broker-1")
    }

    fn control(&self, word: &str, arguments: &[&str]) {
        let mut command = xtask();
        command
            .args(["kafka", word, "--dir"])
            .arg(self.dir.path())
            .args(arguments);
        run(command.env("KAFKA_HEAP", "512m"), "");
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.control("wipe", &[]);
    }
}

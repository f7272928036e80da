//! `milena broker` as a separate process.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::client::Client;

pub struct Process {
    child: Child,
    pub address: String,
}

impl Process {
    /// Starts a broker and waits for its `BOOTSTRAP=` line.
    pub fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", dir, arguments)
    }

    /// Starts a broker at the address of an earlier one.
    pub fn start_at(address: &str, dir: &Path, arguments: &[&str]) -> Self {
        Self::spawn(&mut command_at(address, dir, arguments))
    }

    /// Runs `milena up` with `home` as the user's data directory.
    pub fn up(home: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        Self::spawn(
            command
                .args(["up", "--listen", "127.0.0.1:0"])
                .env("XDG_DATA_HOME", home),
        )
    }

    /// Starts a command that prints a `BOOTSTRAP=` line.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("BOOTSTRAP=")
            .unwrap_or_else(|| panic!("{line:?}"))
            .to_owned();
        Self { child, address }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Sends SIGKILL. Dropping does the same, so that no test leaves a process behind.
    pub fn kill(self) {}

    /// Sends SIGTERM.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", "TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    command_at("127.0.0.1:0", dir, arguments)
}

fn command_at(address: &str, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command
        .args(["broker", "--listen", address, "--data-dir"])
        .arg(dir)
        .args(arguments);
    command
}

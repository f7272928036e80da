//! `java/Peer.java`, run as a process beside the test.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread,
};

use tokio::sync::{oneshot, watch};

use crate::{
    ledger::Ledger,
    patience::in_time,
    programs::{run, xtask},
};

type Reply = Result<String, String>;

pub struct Peer {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    shared: Arc<Shared>,
    is_ready: watch::Receiver<bool>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<(u64, BTreeMap<u64, oneshot::Sender<Reply>>)>,
    /// The ledger of each member.
    ledgers: Mutex<BTreeMap<String, Arc<Ledger>>>,
    /// Its standard error, for diagnosis.
    complaints: Mutex<String>,
}

impl Peer {
    pub fn start(address: &str) -> Self {
        let mut child = Command::new("java")
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["-cp", compiled(), "Peer", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let shared = Arc::new(Shared::default());
        let (ready, is_ready) = watch::channel(false);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let hearing = Arc::clone(&shared);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line == "ready" {
                    let _ = ready.send(true);
                } else {
                    hearing.hear(&line);
                }
            }
        });
        let complaints = BufReader::new(child.stderr.take().unwrap()).lines();
        let hearing = Arc::clone(&shared);
        thread::spawn(move || {
            for line in complaints.map_while(Result::ok) {
                let mut complaints = hearing.complaints.lock().unwrap();
                complaints.push_str(&line);
                complaints.push('\n');
            }
        });
        let input = child.stdin.take().unwrap();
        Self {
            child: Mutex::new(child),
            input: Mutex::new(input),
            shared,
            is_ready,
        }
    }

    /// Sends a command and waits for its reply, which must be a success.
    pub async fn call(&self, command: &str) -> String {
        let mut is_ready = self.is_ready.clone();
        let ready = in_time("Kafka's clients start", is_ready.wait_for(|ready| *ready))
            .await
            .is_ok();
        assert!(ready, "{}", self.complaints());
        let (done, reply) = oneshot::channel();
        let number = {
            let mut waiting = self.shared.waiting.lock().unwrap();
            waiting.0 += 1;
            let number = waiting.0;
            waiting.1.insert(number, done);
            number
        };
        writeln!(self.input.lock().unwrap(), "{number} {command}").unwrap();
        match in_time(command, reply).await {
            Ok(Ok(words)) => words,
            other => panic!("{command}: {other:?}\n{}", self.complaints()),
        }
    }

    /// Registers the ledger of a member.
    pub fn tell(&self, member: &str, ledger: &Arc<Ledger>) {
        let mut ledgers = self.shared.ledgers.lock().unwrap();
        ledgers.insert(member.to_owned(), Arc::clone(ledger));
    }

    /// Kills the process like a crash.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Its standard error so far.
    pub fn complaints(&self) -> String {
        self.shared.complaints.lock().unwrap().clone()
    }
}

/// The class path of the program, which is compiled once.
fn compiled() -> &'static str {
    static CLASS_PATH: OnceLock<String> = OnceLock::new();
    CLASS_PATH.get_or_init(|| {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/java/Peer.java");
        let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/peer");
        let libraries = run(xtask().args(["kafka", "classpath"]), "");
        let libraries = libraries.trim();
        let mut javac = Command::new("javac");
        run(javac.args(["-d", folder, "-cp", libraries]).arg(program), "");
        format!("{folder}:{libraries}")
    })
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Shared {
    fn hear(&self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (first, second, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
        let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
        if first == "!" {
            let ledger = self.ledgers.lock().unwrap().get(second).cloned();
            if let Some(ledger) = ledger {
                ledger.hear(second, rest);
            }
            return;
        }
        let Ok(number) = first.parse() else { return };
        let waiting = self.waiting.lock().unwrap().1.remove(&number);
        let reply = if second == "ok" {
            Ok(rest.to_owned())
        } else {
            Err(rest.to_owned())
        };
        if let Some(waiting) = waiting {
            let _ = waiting.send(reply);
        }
    }
}

//! One round: a broker, a client that behaves, the attack, and the verdict.

use std::{
    fmt,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Arguments, attack,
    frames::TOPIC,
    subject::{Addresses, Subject},
    witness::{self, Witness},
};

/// Time in which the witness is measured without an attack.
const QUIET_TIME: Duration = Duration::from_secs(15);
/// Part of its undisturbed throughput that the witness must keep.
const KEPT_PERCENT_MIN: f64 = 80.0;
/// The most memory of the broker, in MiB: fixed, and for a thousand connections.
const MEMORY_MIB_MAX: u64 = 640;
const MEMORY_MIB_PER_THOUSAND: u64 = 24;
/// The most that the broker may log about it all.
const LOG_BYTES_MAX: u64 = 16 << 20;

pub struct Figures {
    attack: String,
    time: Duration,
    records: u64,
    kept_percent: Option<f64>,
    memory_mib: u64,
    log_bytes: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        writeln!(f, "attack: {} in {seconds:.0} s", self.attack)?;
        write!(f, "other client: {} records, all correct", self.records)?;
        if let Some(percent) = self.kept_percent {
            write!(f, "; {percent:.0} % of its throughput without the attack")?;
        }
        write!(
            f,
            "\nbroker: at most {} MiB, log of {} bytes",
            self.memory_mib, self.log_bytes
        )
    }
}

pub fn run(arguments: &Arguments, seed: u64) -> Result<Figures, String> {
    raise_file_limit(arguments.connections);
    let subject = Subject::start();
    let mut client = subject.client();
    client.create_topic(
        TOPIC,
        4,
        &[("retention.bytes", "10000000"), ("segment.bytes", "1048576")],
    );
    client.create_topic(witness::TOPIC, 1, &[]);
    drop(client);

    let witness = Witness::start(&subject.addresses.plain.to_string());
    let quiet = arguments.compare.then(|| witness.rate(QUIET_TIME));
    let mut attack = Attack::start(subject.addresses, arguments, seed);
    attack.ready()?;
    let (began, records_before) = (Instant::now(), witness.records());
    while attack.is_running() {
        std::thread::sleep(Duration::from_millis(200));
        subject.check()?;
        witness.check()?;
        let limit = MEMORY_MIB_MAX + MEMORY_MIB_PER_THOUSAND * arguments.connections as u64 / 1000;
        if subject.memory_mib_max() > limit {
            return Err(format!(
                "the broker takes {} MiB, more than {limit}",
                subject.memory_mib_max()
            ));
        }
    }
    let time = began.elapsed();
    let attacked = (witness.records() - records_before) as f64 / time.as_secs_f64();
    let attack = attack.end()?;
    let records = witness.end()?;
    // The broker still serves new clients, and its end is as clean as ever.
    subject.client().fetch(witness::TOPIC, 0, 0);
    let (memory_mib, log_bytes) = (subject.memory_mib_max(), subject.log_bytes());
    subject.end()?;
    if log_bytes > LOG_BYTES_MAX {
        return Err(format!("the broker has logged {log_bytes} bytes"));
    }
    let kept_percent = quiet.map(|quiet| attacked / quiet * 100.0);
    let figures = Figures {
        attack,
        time,
        records,
        kept_percent,
        memory_mib,
        log_bytes,
    };
    if kept_percent.is_some_and(|percent| percent < KEPT_PERCENT_MIN) {
        return Err(format!("the other client lost too much throughput\n{figures}"));
    }
    Ok(figures)
}

/// The process of the attackers. Dropping it kills it.
struct Attack {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Attack {
    fn start(addresses: Addresses, arguments: &Arguments, seed: u64) -> Self {
        let seconds = arguments.minutes.map_or(u64::MAX, |minutes| (minutes * 60.0) as u64);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(attack::ROLE);
        for address in [addresses.plain, addresses.sasl, addresses.tls] {
            command.arg(address.to_string());
        }
        for number in [arguments.frames, seed, arguments.connections as u64, seconds] {
            command.arg(number.to_string());
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            _ => Err("the attackers have ended unexpectedly".to_owned()),
        }
    }

    /// Waits until all connections are open.
    fn ready(&mut self) -> Result<(), String> {
        println!("{}", self.line()?);
        Ok(())
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn end(mut self) -> Result<String, String> {
        self.line()
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets this process and its children have a socket for each connection.
fn raise_file_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, raised).is_err() {
        println!("the limit of open files cannot be raised");
    }
    let needed = connections as u64 + attack::FILES_BESIDE;
    if let Some(allowed) = limit.maximum.filter(|allowed| *allowed < needed) {
        println!("only {allowed} open files are allowed: fewer than {connections} connections are opened");
    }
}

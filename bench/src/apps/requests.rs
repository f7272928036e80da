//! Request-reply: services and requesters, each in a process of its own.

use std::{
    fs,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use milena_app::{
    App,
    handler::{Done, Raw},
    request_reply::{Replies, Requester, RequesterConfig},
};
use tokio::sync::Semaphore;

use crate::{
    child::{Measured, Started},
    programs::Programs,
};

pub const REQUESTS: &str = "quotes.requests";
pub const REPLIES: &str = "replies";
/// Nothing reads it.
const NOWHERE: &str = "nowhere.requests";

/// Requests one after the other, for the latency.
const SINGLE: usize = 3_000;
/// The first ones meet cold code, also that of a virtual machine.
const WARM_UP: usize = 2_000;
/// Requests for the throughput, and the number of them in flight.
const MANY: usize = 50_000;
const IN_FLIGHT: usize = 64;
pub const PENDING: usize = 50_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    Ours,
    Spring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Answers until it is killed.
    Serve,
    /// Sends requests one after the other, then many at once.
    Ask,
    /// Sends requests that are never answered, and reports its memory for them.
    Pend,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Ask => "ask",
            Self::Pend => "pend",
        }
    }
}

fn command(side: Side, part: Part, address: &str, programs: &Programs) -> Result<Command> {
    let mut command = match side {
        Side::Spring => {
            let mut java = programs.java("Requests")?;
            java.args([SINGLE, WARM_UP, MANY, IN_FLIGHT].map(|number| number.to_string()));
            java
        }
        Side::Ours => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("talk");
            command
        }
    };
    command.args([part.word(), address]);
    Ok(command)
}

/// A service until it is dropped.
pub struct Service(Child);

impl Service {
    pub fn start(side: Side, address: &str, programs: &Programs) -> Result<Self> {
        let mut command = command(side, Part::Serve, address, programs)?;
        Ok(Self(command.stdin(Stdio::null()).spawn()?))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a requester. The times are those of single requests; records and seconds are those of many at once.
pub fn ask(side: Side, part: Part, address: &str, programs: &Programs) -> Result<Measured> {
    Started::spawn("a requester", command(side, part, address, programs)?)?.wait()
}

/// The whole life of a child process of our side.
pub fn talk(part: Part, address: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match part {
            Part::Serve => serve(address).await,
            Part::Ask => measure(address).await,
            Part::Pend => pend(address).await,
        }
    })
}

async fn serve(address: &str) -> Result<()> {
    let answer = |Raw(request): Raw| async move { Done::reply(request.value().unwrap_or_default().to_vec()) };
    let app = App::new(address).group("quotes");
    let app = app.on(REQUESTS, answer, |policy| policy.replies(Replies::default()));
    app.run_until(std::future::pending()).await?;
    Ok(())
}

async fn requester(address: &str) -> Result<Requester> {
    let config = RequesterConfig::new(address).timeout(Duration::from_secs(60));
    Ok(Requester::start(config.reply_topic(REPLIES).reply_partition(0)).await?)
}

const VALUE: [u8; 100] = [b'x'; 100];

async fn measure(address: &str) -> Result<()> {
    let requester = requester(address).await?;
    let request = |number: usize| requester.request(REQUESTS, format!("key {}", number % 1_000), &VALUE[..]);
    let mut times = String::new();
    for number in 0..WARM_UP + SINGLE {
        let began = Instant::now();
        request(number).send().await?;
        if number >= WARM_UP {
            times += &format!("{number} {}\n", began.elapsed().as_nanos());
        }
    }
    let room = Arc::new(Semaphore::new(IN_FLIGHT));
    let began = Instant::now();
    for number in 0..MANY {
        let permit = Arc::clone(&room).acquire_owned().await?;
        let request = request(number);
        tokio::spawn(async move {
            let reply = request.send().await;
            drop(permit);
            reply.map(drop)
        });
    }
    let _all = room.acquire_many(u32::try_from(IN_FLIGHT)?).await?;
    let seconds = began.elapsed().as_secs_f64();
    anyhow::ensure!(
        requester.counts().replied == (WARM_UP + SINGLE + MANY) as u64,
        "{requester:?}"
    );
    print!("{MANY} 0 {seconds}\n{times}");
    Ok(())
}

/// Each request waits in a task of its own, as those of a server do.
async fn pend(address: &str) -> Result<()> {
    let requester = requester(address).await?;
    let before = resident()?;
    let began = Instant::now();
    for number in 0..PENDING {
        let request = requester.request(NOWHERE, format!("key {number}"), &VALUE[..]);
        tokio::spawn(request.send());
    }
    while requester.counts().pending < PENDING as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("{PENDING} {} {seconds}", resident()? - before);
    std::process::exit(0);
}

/// The memory of this process in bytes.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .context("no VmRSS")?;
    Ok(kilobytes.trim().parse::<u64>()? * 1_024)
}

/// The topics of a run.
pub fn topics() -> Vec<String> {
    [REQUESTS, REPLIES, NOWHERE].map(str::to_owned).to_vec()
}

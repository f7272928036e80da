//! The attackers: a process with crews of connections, each with one way to misbehave.

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::{
    bombs, crowd,
    frames::Frames,
    log_ins::{guess_passwords, send_logged_in, send_without_log_in},
    random::Random,
    subject::Addresses,
    tls_garbage::send_tls_garbage,
};

pub const ROLE: &str = "attack";
/// Open files that are needed beside those of the crowd.
pub const FILES_BESIDE: u64 = 500;

/// Connections of each crew.
const SENDERS: usize = 48;
const SENDERS_LOGGED_IN: usize = 16;
const STRANGERS: usize = 16;
const GUESSERS: usize = 64;
const TLS_GARBAGE: usize = 16;
const SLOW_SENDERS: usize = 16;
const HALF_SENDERS: usize = 16;
const DEAF: usize = 8;
const BOMBERS: usize = 2;
const WRONG_PROTOCOL: usize = 4;

/// Time for a response before the next frame is sent anyway: some requests wait for long.
const RESPONSE_TIME: Duration = Duration::from_millis(5);
/// Priority of the attackers. They stand for other machines and should not take the broker's processors.
const NICENESS: i32 = 19;

pub struct Attack {
    pub peers: Addresses,
    frames_max: u64,
    pub frames: Frames,
    bombs: Vec<Bytes>,
    sent: AtomicU64,
    connected: AtomicU64,
    stop: AtomicBool,
}

/// Runs the process: addresses, frames, seed, connections, seconds.
pub fn main(words: &[String]) -> ExitCode {
    let [plain, sasl, tls, numbers @ ..] = words else {
        return ExitCode::FAILURE;
    };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let [frames_max, seed, connections, seconds] = *numbers else {
        return ExitCode::FAILURE;
    };
    // Without it the figures are worse, and nothing else.
    let _ = rustix::process::nice(NICENESS);
    let attack = Arc::new(Attack {
        peers: Addresses {
            plain: plain.parse().unwrap(),
            sasl: sasl.parse().unwrap(),
            tls: tls.parse().unwrap(),
        },
        frames_max,
        frames: Frames::new(),
        bombs: bombs::requests(),
        sent: AtomicU64::new(0),
        connected: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(attack, seed, usize::try_from(connections).unwrap(), seconds));
    ExitCode::SUCCESS
}

async fn run(attack: Arc<Attack>, seed: u64, connections: usize, seconds: u64) {
    let crowd = crowd::open(attack.peers.plain, connections, &mut Random(seed)).await;
    println!("{} connections are open", crowd.len());
    let mut crews = JoinSet::new();
    let mut number = seed;
    macro_rules! crew {
        ($count:expr, $run:ident) => {
            for _ in 0..$count {
                number += 1;
                crews.spawn($run(Arc::clone(&attack), Random(number)));
            }
        };
    }
    crew!(SENDERS, send_frames);
    crew!(SENDERS_LOGGED_IN, send_logged_in);
    crew!(STRANGERS, send_without_log_in);
    crew!(GUESSERS, guess_passwords);
    crew!(TLS_GARBAGE, send_tls_garbage);
    crew!(SLOW_SENDERS, send_slowly);
    crew!(HALF_SENDERS, send_halves);
    crew!(DEAF, never_read);
    crew!(BOMBERS, send_bombs);
    crew!(WRONG_PROTOCOL, speak_another_protocol);
    let began = Instant::now();
    while attack.sent.load(Relaxed) < attack.frames_max && began.elapsed().as_secs() < seconds {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    attack.stop.store(true, Relaxed);
    crews.shutdown().await;
    println!(
        "{} frames, {} connections beside {} kept ones",
        attack.sent.load(Relaxed),
        attack.connected.load(Relaxed),
        crowd.len()
    );
}

impl Attack {
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    /// A connection to the plain listener.
    async fn connect(&self) -> Option<TcpStream> {
        self.connect_to(self.peers.plain).await
    }

    pub async fn connect_to(&self, peer: SocketAddr) -> Option<TcpStream> {
        let Ok(stream) = TcpStream::connect(peer).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            return None;
        };
        self.connected.fetch_add(1, Relaxed);
        let _ = stream.set_nodelay(true);
        // Closing resets the connection, so that its port is free at once.
        let _ = stream.set_zero_linger();
        Some(stream)
    }

    /// Sends a frame and waits a little for the response; false if the broker has closed the connection.
    pub async fn send(&self, stream: &mut TcpStream, frame: &[u8]) -> bool {
        if stream.write_all(frame).await.is_err() {
            return false;
        }
        self.sent.fetch_add(1, Relaxed);
        let mut response = vec![0; 16 << 10];
        !matches!(
            timeout(RESPONSE_TIME, stream.read(&mut response)).await,
            Ok(Ok(0) | Err(_))
        )
    }
}

impl Attack {
    /// Sends damaged frames of every API, until the broker closes the connection.
    pub async fn send_many(&self, mut stream: TcpStream, random: &mut Random) {
        for _ in 0..random.number(1..1000) {
            let frame = self.frames.next(random);
            if !self.goes_on() || !self.send(&mut stream, &frame).await {
                break;
            }
        }
    }
}

async fn send_frames(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        if let Some(stream) = attack.connect().await {
            attack.send_many(stream, &mut random).await;
        }
    }
}

/// Whole frames, byte by byte.
async fn send_slowly(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect().await else {
            continue;
        };
        let frame = attack.frames.any(&mut random).clone();
        for byte in frame.chunks(1) {
            tokio::time::sleep(random.millis(1..50)).await;
            if stream.write_all(byte).await.is_err() {
                break;
            }
        }
        attack.sent.fetch_add(1, Relaxed);
    }
}

/// Frames that promise up to 100 MB, of which a part arrives.
async fn send_halves(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect().await else {
            continue;
        };
        let length = u32::try_from(random.number(1000..100 << 20)).unwrap();
        let part = vec![0; random.number(0..100_000)];
        let _ = stream.write_all(&length.to_be_bytes()).await;
        let _ = timeout(Duration::from_secs(1), stream.write_all(&part)).await;
        attack.sent.fetch_add(1, Relaxed);
        tokio::time::sleep(random.millis(1..3000)).await;
    }
}

/// Requests whose responses are never read.
async fn never_read(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect().await else {
            continue;
        };
        for _ in 0..10_000 {
            let frame = attack.frames.any(&mut random);
            let written = timeout(Duration::from_secs(1), stream.write_all(frame)).await;
            if !matches!(written, Ok(Ok(()))) {
                break;
            }
            attack.sent.fetch_add(1, Relaxed);
        }
        tokio::time::sleep(random.millis(100..3000)).await;
    }
}

async fn send_bombs(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect().await else {
            continue;
        };
        for bomb in &attack.bombs {
            if !attack.send(&mut stream, bomb).await {
                break;
            }
            tokio::time::sleep(random.millis(10..500)).await;
        }
    }
}

/// The start of TLS, HTTP and random bytes.
async fn speak_another_protocol(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect().await else {
            continue;
        };
        let mut bytes = match random.number(0..3) {
            0 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            1 => b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n".to_vec(),
            _ => vec![],
        };
        for _ in 0..random.number(0..2000) {
            bytes.push(random.number(0..256) as u8);
        }
        attack.send(&mut stream, &bytes).await;
        tokio::time::sleep(random.millis(1..20)).await;
    }
}

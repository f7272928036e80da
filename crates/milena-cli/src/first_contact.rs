//! The first contact with a cluster: probes all bootstrap brokers by TCP and reports failures at once. A plain probe
//! runs before any client exists, so the user sees short notices and no log lines of a client.

use std::{
    collections::BTreeMap,
    io::{Error, ErrorKind},
    time::Duration,
};

use anyhow::{Result, bail};
use milena_client::config::ServerAddress;
use tokio::{
    net::{TcpStream, lookup_host},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::log;

/// The delay between two attempts at the same address.
const RETRY: Duration = Duration::from_millis(200);
/// The time after which an address that neither accepts nor refuses is reported.
const SILENCE: Duration = Duration::from_secs(1);
const SILENT: &str = "no response";

/// Returns as soon as one address accepts a connection. Fails after `wait` with the reason of each address.
pub(crate) async fn wait_for_broker(servers: &[ServerAddress], wait: Duration) -> Result<()> {
    let mut contact = Contact::default();
    for server in servers {
        contact.attempt(server.clone(), Duration::ZERO);
    }
    let Some(deadline) = Instant::now().checked_add(wait) else {
        contact.until_accepted(servers).await;
        return Ok(());
    };
    if timeout_at(deadline, contact.until_accepted(servers)).await.is_ok() {
        return Ok(());
    }
    bail!(
        "cannot reach {}; check that a broker runs there, set another address with -b HOST:PORT or MILENA_BOOTSTRAP, or \
         wait longer with --wait",
        contact.reasons(servers).join(", ")
    )
}

/// Concurrent attempts at all addresses.
#[derive(Default)]
struct Contact {
    attempts: JoinSet<(ServerAddress, Result<(), String>)>,
    /// The last failure of each address.
    failures: BTreeMap<String, String>,
    /// The reasons that were reported already.
    reported: Vec<String>,
}

impl Contact {
    fn attempt(&mut self, server: ServerAddress, delay: Duration) {
        self.attempts.spawn(async move {
            sleep(delay).await;
            let outcome = connect(&server).await;
            (server, outcome)
        });
    }

    async fn until_accepted(&mut self, servers: &[ServerAddress]) {
        let mut silence = std::pin::pin!(sleep_until(Instant::now() + SILENCE));
        let mut is_silent = false;
        loop {
            tokio::select! {
                () = &mut silence, if !is_silent => is_silent = true,
                Some(Ok((server, outcome))) = self.attempts.join_next() => match outcome {
                    Ok(()) => return,
                    Err(reason) => {
                        self.failures.insert(server.to_string(), reason);
                        self.attempt(server, RETRY);
                    }
                },
            }
            // One refusing address is not worth a notice while another may still accept.
            if is_silent || self.failures.len() == servers.len() {
                self.report(servers);
            }
        }
    }

    fn report(&mut self, servers: &[ServerAddress]) {
        for reason in self.reasons(servers) {
            if !self.reported.contains(&reason) {
                log::notice(format_args!("{reason}; still trying, Ctrl-C to stop"));
                self.reported.push(reason);
            }
        }
    }

    /// Each address with the reason for its failure.
    fn reasons(&self, servers: &[ServerAddress]) -> Vec<String> {
        let reason = |server: &ServerAddress| {
            let server = server.to_string();
            let reason = self.failures.get(&server).map_or(SILENT, String::as_str);
            format!("{server}: {reason}")
        };
        servers.iter().map(reason).collect()
    }
}

async fn connect(server: &ServerAddress) -> Result<(), String> {
    let addresses = lookup_host((server.host.as_str(), server.port)).await;
    let addresses = addresses.map_err(|error| format!("unknown host ({})", lookup_reason(&error)))?;
    let mut reason = "unknown host (the name has no address)".to_owned();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(_) => return Ok(()),
            Err(error) => reason = connect_reason(&error),
        }
    }
    Err(reason)
}

/// The message of the resolver, without the prefix of the standard library.
fn lookup_reason(error: &Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once("information: ").map(|(_, reason)| reason.to_owned());
    reason.unwrap_or(text)
}

fn connect_reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Other => error.to_string(),
        kind => kind.to_string(),
    }
}

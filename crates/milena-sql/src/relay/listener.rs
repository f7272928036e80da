//! Wake-ups by commits in PostgreSQL.
//!
//! One connection listens for notifications. It also holds the locks that tell writers to notify: see the migration.

use std::time::Duration;

use sqlx::{PgPool, postgres::PgListener};
use tokio::sync::mpsc;

const CHANNEL: &str = "milena_outbox";
/// Class of the advisory locks, one per slot.
const LOCK_CLASS: i32 = 1_835_101_295;
/// Wait after the connection was lost.
const RECONNECT: Duration = Duration::from_secs(1);

const SLEEP: &str = "SELECT bool_and(pg_try_advisory_lock($1, slot)) FROM unnest($2::integer[]) AS slots (slot)";
const WAKE: &str = "SELECT pg_advisory_unlock_all()";

#[derive(Debug)]
pub(super) enum ListenerCommand {
    /// Announces that commits to these slots must notify.
    Sleep(Vec<i32>),
    Wake,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListenerEvent {
    /// Whether the relay can be woken from now on.
    Listening(bool),
    /// Result of [`ListenerCommand::Sleep`].
    Slept(bool),
    Notified,
}

/// Listens until the driver is gone, and connects again after failures.
pub(super) async fn run(
    pool: PgPool,
    mut commands: mpsc::UnboundedReceiver<ListenerCommand>,
    events: mpsc::UnboundedSender<ListenerEvent>,
) {
    loop {
        let listened = listen(&pool, &mut commands, &events).await;
        let is_gone = events.send(ListenerEvent::Listening(false)).is_err();
        match listened {
            Ok(()) => return,
            Err(_) if is_gone => return,
            Err(error) => tracing::debug!(
                event = "outbox_listener_lost",
                %error,
                "the relay polls until its listener is connected again: {error}"
            ),
        }
        while let Ok(command) = commands.try_recv() {
            if matches!(command, ListenerCommand::Sleep(_)) && events.send(ListenerEvent::Slept(false)).is_err() {
                return;
            }
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen(
    pool: &PgPool,
    commands: &mut mpsc::UnboundedReceiver<ListenerCommand>,
    events: &mpsc::UnboundedSender<ListenerEvent>,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    if events.send(ListenerEvent::Listening(true)).is_err() {
        return Ok(());
    }
    loop {
        let event = tokio::select! {
            notified = listener.try_recv() => match notified? {
                // Of several commits, the first is enough.
                Some(_) => {
                    while listener.next_buffered().is_some() {}
                    Some(ListenerEvent::Notified)
                }
                None => return Err(sqlx::Error::WorkerCrashed),
            },
            command = commands.recv() => match command {
                None => return Ok(()),
                Some(ListenerCommand::Sleep(slots)) => {
                    let sleep = sqlx::query_scalar(SLEEP).bind(LOCK_CLASS).bind(slots);
                    let is_asleep: Option<bool> = sleep.fetch_one(&mut listener).await?;
                    let is_asleep = is_asleep.unwrap_or(false);
                    if !is_asleep {
                        sqlx::query(WAKE).execute(&mut listener).await?;
                    }
                    Some(ListenerEvent::Slept(is_asleep))
                }
                Some(ListenerCommand::Wake) => {
                    sqlx::query(WAKE).execute(&mut listener).await?;
                    None
                }
            },
        };
        if let Some(event) = event
            && events.send(event).is_err()
        {
            return Ok(());
        }
    }
}

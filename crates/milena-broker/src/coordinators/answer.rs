//! Answers of coordinators, and what they wait for.

use std::{collections::BTreeMap, sync::Arc};

use milena_machines::Ticket;
use milena_wire::errors::ErrorCode;
use tokio::sync::oneshot;

use crate::partition::{Partition, SyncFailed};

/// An answer that is there, or will come.
#[derive(Debug)]
pub(crate) enum Answer<Reply> {
    Now(Reply),
    Later(Waiting<Reply>),
}

/// A request that waits for its answer, or for the disk.
#[derive(Debug)]
pub(crate) struct Waiting<Reply> {
    partition: Arc<Partition>,
    answer: oneshot::Receiver<Durable<Reply>>,
}

/// An answer, and what must survive before it leaves.
#[derive(Debug)]
struct Durable<Reply> {
    reply: Reply,
    /// Everything that the answer tells of is below this offset.
    end_offset: i64,
}

impl<Reply> Answer<Reply> {
    /// The answer, as soon as it may leave.
    pub(crate) async fn wait(self) -> Result<Reply, ErrorCode> {
        match self {
            Self::Now(reply) => Ok(reply),
            Self::Later(Waiting { partition, answer }) => {
                // The machine was thrown away: whoever asks again finds the new one.
                let durable = answer.await.map_err(|_| ErrorCode::NotCoordinator)?;
                let outcome = wait_durable(&partition, durable.end_offset).await;
                outcome.map_err(|SyncFailed| ErrorCode::CoordinatorNotAvailable)?;
                Ok(durable.reply)
            }
        }
    }

    /// The same, told apart from one that comes later if it is there by now.
    pub(super) fn settled(self) -> Self {
        let Self::Later(Waiting { partition, mut answer }) = self else {
            return self;
        };
        match answer.try_recv() {
            Ok(durable) if partition.is_durable(durable.end_offset) => Self::Now(durable.reply),
            Ok(durable) => later(partition, durable.reply, durable.end_offset),
            Err(_) => Self::Later(Waiting { partition, answer }),
        }
    }
}

/// Waits until everything below an offset survives what the topic's mode promises to survive.
pub(super) async fn wait_durable(partition: &Partition, end_offset: i64) -> Result<(), SyncFailed> {
    if partition.is_durable(end_offset) {
        return Ok(());
    }
    partition.wait_synced(end_offset - 1).await
}

/// An answer that waits for the disk only.
fn later<Reply>(partition: Arc<Partition>, reply: Reply, end_offset: i64) -> Answer<Reply> {
    let (sender, answer) = oneshot::channel();
    // The receiver is right here.
    let _ = sender.send(Durable { reply, end_offset });
    Answer::Later(Waiting { partition, answer })
}

/// Those who wait for the answers of one machine.
#[derive(Debug)]
pub(super) struct Desk<Reply> {
    waiting: BTreeMap<Ticket, oneshot::Sender<Durable<Reply>>>,
}

impl<Reply> Default for Desk<Reply> {
    fn default() -> Self {
        let waiting = BTreeMap::new();
        Self { waiting }
    }
}

impl<Reply> Desk<Reply> {
    /// Sends answers on their way. Nobody waits any more for some, if connections have ended.
    pub(super) fn answer(&mut self, replies: Vec<(Ticket, Reply)>, end_offset: i64) {
        for (ticket, reply) in replies {
            if let Some(sender) = self.waiting.remove(&ticket) {
                let _ = sender.send(Durable { reply, end_offset });
            }
        }
    }

    /// Tells all who wait that they must ask again.
    pub(super) fn close(&mut self) {
        self.waiting.clear();
    }

    /// The answer to a request that was just handled, or a place in the line.
    pub(super) fn take_or_wait(
        &mut self,
        ticket: Ticket,
        own: Option<Reply>,
        partition: &Arc<Partition>,
        end_offset: i64,
    ) -> Answer<Reply> {
        let partition = Arc::clone(partition);
        match own {
            Some(reply) if partition.is_durable(end_offset) => Answer::Now(reply),
            Some(reply) => later(partition, reply, end_offset),
            None => {
                let (sender, answer) = oneshot::channel();
                self.waiting.insert(ticket, sender);
                Answer::Later(Waiting { partition, answer })
            }
        }
    }
}

/// Takes the answer to a ticket out of all.
pub(super) fn take_own<Reply>(replies: &mut Vec<(Ticket, Reply)>, ticket: Ticket) -> Option<Reply> {
    let own = replies.iter().position(|(to, _)| *to == ticket)?;
    Some(replies.swap_remove(own).1)
}

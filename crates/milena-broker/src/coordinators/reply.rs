//! Replies of coordinators, which leave when the records behind them are durable.

use std::{collections::BTreeMap, sync::Arc};

use milena_invariant::invariant;
use milena_machines::Ticket;
use milena_wire::errors::ErrorCode;
use tokio::sync::oneshot;

use crate::partition::{Partition, SyncFailed};

/// A reply that is ready, or will be.
#[derive(Debug)]
pub(crate) enum PendingReply<Reply> {
    Ready(Reply),
    Waiting(ReplyWait<Reply>),
}

/// A request that waits for its reply, or for the disk.
#[derive(Debug)]
pub(crate) struct ReplyWait<Reply> {
    partition: Arc<Partition>,
    reply: oneshot::Receiver<DurableReply<Reply>>,
}

/// A reply with the offset that must be durable before it leaves.
#[derive(Debug)]
struct DurableReply<Reply> {
    reply: Reply,
    /// All records that the reply depends on are below this offset.
    end_offset: i64,
}

impl<Reply> PendingReply<Reply> {
    /// Waits until the reply is there and may leave.
    pub(crate) async fn wait(self) -> Result<Reply, ErrorCode> {
        match self {
            Self::Ready(reply) => Ok(reply),
            Self::Waiting(ReplyWait { partition, reply }) => {
                // The machine was dropped; a retry of the client finds the new one.
                let durable = reply.await.map_err(|_| ErrorCode::NotCoordinator)?;
                let outcome = wait_durable(&partition, durable.end_offset).await;
                outcome.map_err(|SyncFailed| ErrorCode::CoordinatorNotAvailable)?;
                Ok(durable.reply)
            }
        }
    }

    /// Becomes `Ready` if the reply has arrived meanwhile and may leave.
    pub(super) fn settled(self) -> Self {
        let Self::Waiting(ReplyWait { partition, mut reply }) = self else {
            return self;
        };
        match reply.try_recv() {
            Ok(durable) if partition.is_durable(durable.end_offset) => Self::Ready(durable.reply),
            Ok(durable) => later(partition, durable.reply, durable.end_offset),
            Err(_) => Self::Waiting(ReplyWait { partition, reply }),
        }
    }
}

/// Waits until all records below an offset are as durable as the topic promises.
pub(super) async fn wait_durable(partition: &Partition, end_offset: i64) -> Result<(), SyncFailed> {
    if partition.is_durable(end_offset) {
        return Ok(());
    }
    partition.wait_synced(end_offset - 1).await
}

/// A reply that waits for the disk only.
fn later<Reply>(partition: Arc<Partition>, reply: Reply, end_offset: i64) -> PendingReply<Reply> {
    let (sender, receiver) = oneshot::channel();
    // It cannot fail: the receiver is still in scope.
    let _ = sender.send(DurableReply { reply, end_offset });
    PendingReply::Waiting(ReplyWait {
        partition,
        reply: receiver,
    })
}

/// The requests that wait for replies of one machine.
#[derive(Debug)]
pub(super) struct ReplyWaiters<Reply> {
    waiting: BTreeMap<Ticket, oneshot::Sender<DurableReply<Reply>>>,
}

impl<Reply> Default for ReplyWaiters<Reply> {
    fn default() -> Self {
        let waiting = BTreeMap::new();
        Self { waiting }
    }
}

impl<Reply> ReplyWaiters<Reply> {
    /// Sends replies to the requests that wait. A request whose connection has ended waits no longer.
    pub(super) fn send(&mut self, replies: Vec<(Ticket, Reply)>, end_offset: i64) {
        for (ticket, reply) in replies {
            if let Some(sender) = self.waiting.remove(&ticket) {
                let _ = sender.send(DurableReply { reply, end_offset });
            }
        }
    }

    /// Fails all that wait with `NOT_COORDINATOR`, so that clients retry.
    pub(super) fn close(&mut self) {
        self.waiting.clear();
    }

    /// The reply to a request that was just handled, or a wait for it.
    pub(super) fn take_or_wait(
        &mut self,
        ticket: Ticket,
        own: Option<Reply>,
        partition: &Arc<Partition>,
        end_offset: i64,
    ) -> PendingReply<Reply> {
        let partition = Arc::clone(partition);
        match own {
            Some(reply) if partition.is_durable(end_offset) => PendingReply::Ready(reply),
            Some(reply) => later(partition, reply, end_offset),
            None => {
                let (sender, reply) = oneshot::channel();
                let before = self.waiting.insert(ticket, sender);
                invariant!(before.is_none(), "a_ticket_waits_for_one_reply");
                PendingReply::Waiting(ReplyWait { partition, reply })
            }
        }
    }
}

/// Removes the reply to a ticket from all replies.
pub(super) fn take_own<Reply>(replies: &mut Vec<(Ticket, Reply)>, ticket: Ticket) -> Option<Reply> {
    let own = replies.iter().position(|(to, _)| *to == ticket)?;
    Some(replies.swap_remove(own).1)
}

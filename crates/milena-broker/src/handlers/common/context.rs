//! The context of a request, and requests to coordinators made on behalf of it.

use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::{
    group::{GroupReply, GroupRequest},
    transaction::{TransactionReply, TransactionRequest},
};
use milena_wire::errors::ErrorCode;

use super::Outcome;
use crate::{
    coordinators::{PendingReply, RequestSource},
    net::{InboundRequest, Peer},
    node::Node,
    quotas::MutationPermits,
};

/// A request with its peer and the node that serves it.
pub(crate) struct RequestContext<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) peer: &'a Peer,
    pub(crate) request: &'a InboundRequest,
}

/// The parts of a [`RequestContext`], for a response that is made later.
pub(crate) struct DetachedContext {
    node: Arc<Node>,
    peer: Peer,
    request: InboundRequest,
}

impl DetachedContext {
    pub(crate) fn cx(&self) -> RequestContext<'_> {
        RequestContext {
            node: &self.node,
            peer: &self.peer,
            request: &self.request,
        }
    }
}

/// The reply of a coordinator; an error if there was none, because it was not available.
pub(crate) type CoordinatorResult<Reply> = Result<Reply, ErrorCode>;
pub(crate) type GroupResult = CoordinatorResult<GroupReply>;
pub(crate) type TransactionResult = CoordinatorResult<TransactionReply>;

impl RequestContext<'_> {
    /// The quota of a request that creates or deletes partitions. It is strict from a version on: clients of older ones do not
    /// know the error.
    pub(crate) fn mutation_permits(&self, strict_since: i16) -> MutationPermits<'_> {
        MutationPermits::new(self.request.charge(), self.request.version >= strict_since)
    }

    /// The advertised host and port of the listener that the request came in on.
    pub(crate) fn advertised(&self) -> (ByteString, u16) {
        self.node.endpoints.advertised(&self.peer.listener)
    }

    /// Copies the context for a response that is made later.
    pub(crate) fn detach(&self) -> DetachedContext {
        DetachedContext {
            node: Arc::clone(self.node),
            peer: self.peer.clone(),
            request: self.request.clone(),
        }
    }

    /// The origin of the request, for group coordinators.
    pub(crate) fn source(&self) -> RequestSource<'_> {
        RequestSource {
            version: self.request.version,
            client_id: &self.request.client_id,
            peer: self.peer,
            visible_topics: self.visible_topics(),
        }
    }

    /// Sends a request to the coordinator of a group; `response` makes the response from its reply.
    pub(crate) fn request_group<R: Send + 'static>(
        &self,
        group_id: &str,
        request: GroupRequest,
        response: impl FnOnce(GroupResult) -> R + Send + 'static,
    ) -> Outcome<R> {
        let reply = self.node.groups.request(self.node, &self.source(), group_id, request);
        self.respond_to(reply, response)
    }

    /// Sends a request to the coordinator of a transactional id; `response` makes the response from its reply.
    pub(crate) fn request_transaction<R: Send + 'static>(
        &self,
        transactional_id: &str,
        request: TransactionRequest,
        response: impl FnOnce(TransactionResult) -> R + Send + 'static,
    ) -> Outcome<R> {
        let version = self.request.version;
        let transactions = &self.node.transactions;
        let reply = transactions.request(self.node, version, transactional_id, request);
        self.respond_to(reply, response)
    }

    /// The response that `response` makes of a reply, when that is there.
    pub(crate) fn respond_to<Reply: Send + 'static, R: Send + 'static>(
        &self,
        reply: CoordinatorResult<PendingReply<Reply>>,
        response: impl FnOnce(CoordinatorResult<Reply>) -> R + Send + 'static,
    ) -> Outcome<R> {
        match reply {
            Ok(PendingReply::Ready(reply)) => Outcome::Ready(response(Ok(reply))),
            Ok(later) => Outcome::later(async { response(later.wait().await) }),
            Err(error) => Outcome::Ready(response(Err(error))),
        }
    }

    /// The response that `response` makes of all replies, in their order, when the last of them is there.
    pub(crate) fn respond_to_all<Reply: Send + 'static, R: Send + 'static>(
        &self,
        replies: Vec<CoordinatorResult<PendingReply<Reply>>>,
        response: impl FnOnce(Vec<CoordinatorResult<Reply>>) -> R + Send + 'static,
    ) -> Outcome<R> {
        if replies
            .iter()
            .any(|reply| matches!(reply, Ok(PendingReply::Waiting(_))))
        {
            return Outcome::later(async move {
                let mut results = Vec::with_capacity(replies.len());
                for reply in replies {
                    results.push(match reply {
                        Ok(reply) => reply.wait().await,
                        Err(error) => Err(error),
                    });
                }
                response(results)
            });
        }
        let ready = |reply| match reply {
            Ok(PendingReply::Ready(reply)) => Ok(reply),
            Ok(PendingReply::Waiting(_)) => Err(ErrorCode::CoordinatorNotAvailable),
            Err(error) => Err(error),
        };
        Outcome::Ready(response(replies.into_iter().map(ready).collect()))
    }
}

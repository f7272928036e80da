//! What the handlers of group requests share: asking the coordinator and waiting for its answer.

use std::sync::Arc;

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::{
    errors::ErrorCode,
    message::{Request, Response},
};

use super::{Caller, Handled, outgoing, reply};
use crate::{
    coordinators::{Asking, GroupAnswer},
    node::Node,
};

/// What came of asking.
pub(super) type Outcome = Result<GroupReply, ErrorCode>;

/// Kafka's sign that the operations a client may do were not asked for.
pub(super) const NOT_ASKED: i32 = i32::MIN;
/// Read, delete, describe, describe and alter configs: all that can be done to a group, a bit for each.
pub(super) const ALL_GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

impl Caller<'_> {
    /// Reads the body, or says why the connection must end.
    pub(super) fn body<R: Request>(&self) -> Result<R, Handled> {
        self.request.body().map_err(|error| Handled::Close(error.to_string()))
    }

    pub(super) fn asking(&self) -> Asking<'_> {
        Asking {
            version: self.request.version,
            client_id: &self.request.client_id,
            peer: self.peer,
        }
    }

    /// Asks the coordinator of a group, and answers with what `response` makes of the outcome.
    pub(super) fn ask<R: Response>(
        &self,
        group_id: &str,
        request: GroupRequest,
        response: impl FnOnce(Outcome) -> R + Send + 'static,
    ) -> Handled {
        let answer = self.node.groups.ask(self.node, &self.asking(), group_id, request);
        match answer {
            Ok(GroupAnswer::Now(answer)) => reply(self.request, &response(Ok(answer)), vec![]),
            Err(error) => reply(self.request, &response(Err(error)), vec![]),
            Ok(later) => {
                let request = self.request.clone();
                Handled::Later(Box::pin(async move {
                    let outcome = later.wait().await;
                    outgoing(&request, &response(outcome), vec![])
                }))
            }
        }
    }

    /// Asks about several groups at once, and answers with what `response` makes of all outcomes, in their order.
    pub(super) fn ask_each<R: Response>(
        &self,
        requests: Vec<(&str, GroupRequest)>,
        response: impl FnOnce(Vec<Outcome>) -> R + Send + 'static,
    ) -> Handled {
        let node: &Arc<Node> = self.node;
        let ask = |(group_id, request)| node.groups.ask(node, &self.asking(), group_id, request);
        self.gather(requests.into_iter().map(ask).collect(), response)
    }

    /// Waits for all answers.
    pub(super) fn gather<R: Response>(
        &self,
        answers: Vec<Result<GroupAnswer, ErrorCode>>,
        response: impl FnOnce(Vec<Outcome>) -> R + Send + 'static,
    ) -> Handled {
        let request = self.request.clone();
        if answers
            .iter()
            .all(|answer| !matches!(answer, Ok(GroupAnswer::Later(_))))
        {
            let now = |answer| match answer {
                Ok(GroupAnswer::Now(answer)) => Ok(answer),
                Ok(GroupAnswer::Later(_)) => Err(ErrorCode::CoordinatorNotAvailable),
                Err(error) => Err(error),
            };
            return reply(&request, &response(answers.into_iter().map(now).collect()), vec![]);
        }
        Handled::Later(Box::pin(async move {
            let mut outcomes = Vec::with_capacity(answers.len());
            for answer in answers {
                outcomes.push(match answer {
                    Ok(answer) => answer.wait().await,
                    Err(error) => Err(error),
                });
            }
            outgoing(&request, &response(outcomes), vec![])
        }))
    }
}

/// The error of an outcome that is no answer: what was said, or that the answer was to another question.
pub(super) fn error_of(outcome: &Outcome) -> i16 {
    outcome
        .as_ref()
        .err()
        .copied()
        .unwrap_or(ErrorCode::UnknownServerError)
        .code()
}

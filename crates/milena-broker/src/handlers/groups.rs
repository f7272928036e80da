//! What the handlers of group requests share.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::message::Response;

use super::{Caller, Handled, waiting::Outcome};
use crate::coordinators::Asking;

pub(super) type GroupOutcome = Outcome<GroupReply>;

impl Caller<'_> {
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
        response: impl FnOnce(GroupOutcome) -> R + Send + 'static,
    ) -> Handled {
        let answer = self.node.groups.ask(self.node, &self.asking(), group_id, request);
        self.wait_for(answer, response)
    }

    /// Asks about several groups at once, and answers with what `response` makes of all outcomes, in their order.
    pub(super) fn ask_each<R: Response>(
        &self,
        requests: Vec<(&str, GroupRequest)>,
        response: impl FnOnce(Vec<GroupOutcome>) -> R + Send + 'static,
    ) -> Handled {
        let ask = |(group_id, request)| self.node.groups.ask(self.node, &self.asking(), group_id, request);
        self.wait_for_all(requests.into_iter().map(ask).collect(), response)
    }
}

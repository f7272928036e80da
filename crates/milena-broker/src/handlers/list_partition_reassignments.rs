//! ListPartitionReassignments 0. With one broker none is ever under way.

use milena_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::common::{Outcome, RequestContext};

pub(super) fn handle(
    _: &RequestContext<'_>,
    _request: ListPartitionReassignmentsRequest,
) -> Outcome<ListPartitionReassignmentsResponse> {
    Outcome::Ready(ListPartitionReassignmentsResponse {
        error_message: None,
        ..Default::default()
    })
}

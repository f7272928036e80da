//! ListPartitionReassignments 0. With one broker none is ever under way.

use milena_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

pub(super) fn handle(_request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse {
        error_message: None,
        ..Default::default()
    }
}

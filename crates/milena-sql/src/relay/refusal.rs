//! Reasons why an event was not published, by what can be done.

use milena_client::{
    admin::ErrorCode,
    producer::{BatchCause, SendError},
};
use milena_machines::outbox::RefusedScope;

/// Reaction to a failed delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// The event or its topic stops until the next attempt.
    Stop(RefusedScope),
    /// The cluster is unavailable: the event is sent again.
    Wait,
    /// As `Wait`, and the producer can send no more.
    Replace,
}

/// Decides about an error. `is_missing` says that the cluster reports an error for the topic.
pub(super) fn reaction(error: &SendError, is_missing: bool) -> Reaction {
    match error {
        SendError::TooLarge { .. }
        | SendError::LargerThanMemory { .. }
        | SendError::NoSuchPartition { .. }
        | SendError::Compression { .. } => Reaction::Stop(RefusedScope::Event),
        SendError::Topic { .. } => Reaction::Stop(RefusedScope::Topic),
        SendError::UnknownTopic { .. } if is_missing => Reaction::Stop(RefusedScope::Topic),
        SendError::Failed { error, .. } => match &error.cause {
            BatchCause::Refused(code) => of_code(*code),
            BatchCause::Stopped(_) | BatchCause::Aborted | BatchCause::NoTransaction => Reaction::Replace,
            _ => Reaction::Wait,
        },
        SendError::Closed | SendError::Transaction(_) => Reaction::Replace,
        _ => Reaction::Wait,
    }
}

fn of_code(code: ErrorCode) -> Reaction {
    match code {
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::InvalidTopicException => Reaction::Stop(RefusedScope::Topic),
        ErrorCode::ClusterAuthorizationFailed => Reaction::Wait,
        code if code.is_retriable() => Reaction::Wait,
        _ => Reaction::Stop(RefusedScope::Event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_topics_and_clusters_are_told_apart() {
        let too_large = SendError::TooLarge {
            topic: "t".to_owned(),
            size: 2,
            limit: 1,
        };
        assert_eq!(reaction(&too_large, false), Reaction::Stop(RefusedScope::Event));
        let unknown = SendError::UnknownTopic {
            topic: "t".to_owned(),
            waited: std::time::Duration::ZERO,
            why: None,
        };
        assert_eq!(reaction(&unknown, true), Reaction::Stop(RefusedScope::Topic));
        assert_eq!(reaction(&unknown, false), Reaction::Wait, "no broker responds");
        assert_eq!(of_code(ErrorCode::MessageTooLarge), Reaction::Stop(RefusedScope::Event));
        assert_eq!(of_code(ErrorCode::NotLeaderOrFollower), Reaction::Wait);
        assert_eq!(
            of_code(ErrorCode::TopicAuthorizationFailed),
            Reaction::Stop(RefusedScope::Topic)
        );
        assert_eq!(reaction(&SendError::Closed, false), Reaction::Replace);
    }
}

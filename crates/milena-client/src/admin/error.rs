//! Errors of the admin client.

use milena_wire::{api::ApiKey, errors::ErrorCode, message::VersionRange};

use crate::{auth::AuthenticationError, config::ConfigErrors, net::CallError};

/// The error of one item of a call. The text names the item, the problem and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The broker returned an error.
    #[error("{item}: {code}{}{}", because(message), advice(*code))]
    Refused {
        /// As in `topic letters`.
        item: String,
        code: ErrorCode,
        /// The message of the broker.
        message: Option<String>,
    },
    /// No response in time, or only retriable errors. The operation may have been done nevertheless.
    #[error(
        "{item}: timed out after {timeout_ms} ms{}; raise default.api.timeout.ms if the cluster is slow",
        because(cause)
    )]
    TimedOut {
        item: String,
        timeout_ms: i64,
        /// The last failure.
        cause: Option<String>,
    },
    /// The broker does not support the API or the version.
    #[error("{item}: {}", unsupported(*api, address, *ours, *theirs))]
    Unsupported {
        item: String,
        api: ApiKey,
        /// The address of the broker.
        address: String,
        /// The versions that the call needs.
        ours: VersionRange,
        /// The versions that the broker supports; `None` if it lacks the API.
        theirs: Option<VersionRange>,
    },
    /// The arguments are invalid; nothing was sent.
    #[error("{item}: {problem}")]
    Invalid { item: String, problem: String },
    /// A broker refuses the client.
    #[error("{item}: {error}")]
    Authentication {
        item: String,
        error: Box<AuthenticationError>,
    },
    /// A failure that cannot be retried.
    #[error("{item}: {why}")]
    Failed { item: String, why: String },
    #[error("{item}: the admin client is closed")]
    Closed { item: String },
}

impl AdminError {
    /// The error code of the broker, if it returned one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The item, as in `topic letters`.
    pub fn item(&self) -> &str {
        match self {
            Self::Refused { item, .. }
            | Self::TimedOut { item, .. }
            | Self::Unsupported { item, .. }
            | Self::Invalid { item, .. }
            | Self::Authentication { item, .. }
            | Self::Failed { item, .. }
            | Self::Closed { item } => item,
        }
    }

    pub(super) fn invalid(item: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            item: item.into(),
            problem: problem.into(),
        }
    }
}

/// An error when an admin client is created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewAdminError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Io(String),
}

/// An error code in a response, with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerError {
    pub(super) code: ErrorCode,
    pub(super) message: Option<String>,
}

/// The failure of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Refused(BrokerError),
    Call(CallError),
    /// No broker is known for the item, with the reason.
    NoNode(String),
    /// The cluster has no such broker.
    NoBroker(i32),
    /// The response does not have the item.
    MissingInResponse,
    /// No response before the deadline.
    NoResponse,
}

impl Failure {
    pub(super) fn refused(code: ErrorCode) -> Self {
        Self::Refused(BrokerError { code, message: None })
    }

    pub(super) fn into_error(self, item: String) -> AdminError {
        match self {
            Self::Refused(BrokerError { code, message }) => AdminError::Refused { item, code, message },
            Self::Call(CallError::UnsupportedVersion {
                address,
                api,
                ours,
                theirs,
            }) => AdminError::Unsupported {
                item,
                api,
                address: address.to_string(),
                ours,
                theirs,
            },
            Self::Call(CallError::Authentication(error)) => AdminError::Authentication { item, error },
            Self::Call(CallError::Closed) => AdminError::Closed { item },
            Self::Call(error) => AdminError::Failed {
                item,
                why: error.to_string(),
            },
            Self::NoNode(why) => AdminError::Failed { item, why },
            Self::NoBroker(id) => AdminError::Failed {
                item,
                why: format!("broker {id} is not in the cluster; describe the cluster to list its brokers"),
            },
            Self::MissingInResponse => AdminError::Failed {
                item,
                why: "the broker's response does not have it".to_owned(),
            },
            Self::NoResponse => AdminError::Failed {
                item,
                why: "there was no response".to_owned(),
            },
        }
    }

    /// Whether it only says that there was no response.
    pub(super) fn is_uninformative(&self) -> bool {
        matches!(self, Self::NoResponse | Self::Call(CallError::TimedOut { .. }))
    }

    /// The text for a timeout error.
    pub(super) fn cause(&self) -> Option<String> {
        match self {
            Self::Refused(BrokerError { code, message }) => Some(format!("{code}{}", because(message))),
            Self::Call(error) => Some(error.to_string()),
            Self::NoNode(why) => Some(why.clone()),
            Self::NoBroker(id) => Some(format!("broker {id} is not in the cluster")),
            Self::MissingInResponse | Self::NoResponse => None,
        }
    }
}

/// Converts an error code to a result.
pub(super) fn check(code: i16, message: Option<&str>) -> Result<(), BrokerError> {
    match ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError) {
        ErrorCode::None => Ok(()),
        code => Err(BrokerError {
            code,
            message: message.filter(|message| !message.is_empty()).map(str::to_owned),
        }),
    }
}

fn because(message: &Option<String>) -> String {
    message
        .as_ref()
        .map_or_else(String::new, |message| format!(": {}", message.trim_end_matches('.')))
}

fn unsupported(api: ApiKey, address: &str, ours: VersionRange, theirs: Option<VersionRange>) -> String {
    match theirs {
        None => format!("the broker at {address} does not support {api}"),
        Some(theirs) => {
            format!("the broker at {address} supports {api} {theirs}, but this call needs {ours}")
        }
    }
}

/// The remedy for an error, where its name does not suggest it.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => "; list the topics to see the existing ones",
        ErrorCode::TopicAlreadyExists => "; choose another name, or change the existing topic",
        ErrorCode::TopicDeletionDisabled => "; set delete.topic.enable=true on the brokers",
        ErrorCode::InvalidReplicationFactor => "; it cannot exceed the number of brokers",
        ErrorCode::GroupIdNotFound => "; list the groups to see the existing ones",
        ErrorCode::NonEmptyGroup => "; stop or remove its members first",
        ErrorCode::GroupSubscribedToTopic => "; stop the members that are subscribed to the topic first",
        ErrorCode::UnknownMemberId => "; to change offsets, stop the members of the group first",
        ErrorCode::TransactionalIdNotFound => "; list the transactions to see the existing ones",
        ErrorCode::SecurityDisabled => "; the brokers have no authorizer (authorizer.class.name)",
        ErrorCode::OffsetOutOfRange => "; list the offsets to see the start and end of the partition",
        ErrorCode::NoReassignmentInProgress => "; the partition is not being reassigned",
        ErrorCode::ElectionNotNeeded => "; the preferred replica is the leader already",
        ErrorCode::PreferredLeaderNotAvailable => "; the preferred replica must be online and in sync",
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TransactionalIdAuthorizationFailed => "; an ACL must allow it",
        _ => "",
    }
}

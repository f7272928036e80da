//! Why something was not done.

use milena_wire::{api::ApiKey, errors::ErrorCode, message::VersionRange};

use crate::{config::ConfigErrors, net::CallError};

/// Why one item of a call was not done. The text names the item, what is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The broker said no.
    #[error("{item}: {code}{}{}", because(message), advice(*code))]
    Refused {
        /// What it is about, as in `topic letters`.
        item: String,
        code: ErrorCode,
        /// What the broker said about it.
        message: Option<String>,
    },
    /// Nothing was heard in time, or only that it should be tried again. It may have been done nevertheless.
    #[error(
        "{item}: not done within {timeout_ms} ms{}; give it more time (default.api.timeout.ms) if the cluster is only slow",
        because(cause)
    )]
    TimedOut {
        item: String,
        timeout_ms: i64,
        /// What went wrong last.
        cause: Option<String>,
    },
    /// The broker does not have what this needs.
    #[error("{item}: {}", unsupported(*api, address, *ours, *theirs))]
    Unsupported {
        item: String,
        api: ApiKey,
        /// Of the broker.
        address: String,
        /// The versions that would do.
        ours: VersionRange,
        /// The versions that it has, if it has any.
        theirs: Option<VersionRange>,
    },
    /// What was asked for makes no sense; nothing was sent.
    #[error("{item}: {problem}")]
    Invalid { item: String, problem: String },
    /// There is no answer, and asking again would not help.
    #[error("{item}: {why}")]
    Failed { item: String, why: String },
    #[error("{item}: the admin client is closed")]
    Closed { item: String },
}

impl AdminError {
    /// What the broker said, if it said no.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// What it is about, as in `topic letters`.
    pub fn item(&self) -> &str {
        match self {
            Self::Refused { item, .. }
            | Self::TimedOut { item, .. }
            | Self::Unsupported { item, .. }
            | Self::Invalid { item, .. }
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

/// Why there is no admin client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewAdminError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Io(String),
}

/// What a broker said no with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokerError {
    pub(super) code: ErrorCode,
    pub(super) message: Option<String>,
}

/// Why an attempt has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Refused(BrokerError),
    Call(CallError),
    /// Whom to ask is not known, for this reason.
    NoNode(String),
    /// The cluster has no such broker.
    NoBroker(i32),
    /// The answer does not tell of it.
    MissingInResponse,
    /// The time was over before there was an answer.
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
            Self::Call(CallError::Closed) => AdminError::Closed { item },
            Self::Call(error) => AdminError::Failed {
                item,
                why: error.to_string(),
            },
            Self::NoNode(why) => AdminError::Failed { item, why },
            Self::NoBroker(id) => AdminError::Failed {
                item,
                why: format!("broker {id} is not in the cluster; describe the cluster to see which are"),
            },
            Self::MissingInResponse => AdminError::Failed {
                item,
                why: "the broker's response does not tell of it".to_owned(),
            },
            Self::NoResponse => AdminError::Failed {
                item,
                why: "there was no response".to_owned(),
            },
        }
    }

    /// It only tells that there was no answer.
    pub(super) fn is_uninformative(&self) -> bool {
        matches!(self, Self::NoResponse | Self::Call(CallError::TimedOut { .. }))
    }

    /// In words, for whoever ran out of time.
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

/// `Ok` if the code says so.
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
        None => format!("the broker at {address} does not have {api}; call one that does"),
        Some(theirs) => {
            format!("the broker at {address} has {api} {theirs}, and this needs {ours}; one of another version may do")
        }
    }
}

/// What to do about an error, where the name of it does not say.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => "; list the topics to see which there are",
        ErrorCode::TopicAlreadyExists => "; choose another name, or change the topic that there is",
        ErrorCode::TopicDeletionDisabled => "; set delete.topic.enable=true on the brokers",
        ErrorCode::InvalidReplicationFactor => "; it cannot be more than there are brokers",
        ErrorCode::GroupIdNotFound => "; list the groups to see which there are",
        ErrorCode::NonEmptyGroup => "; stop its members first, or remove them",
        ErrorCode::GroupSubscribedToTopic => "; a member reads the topic, so stop it first",
        ErrorCode::UnknownMemberId => "; if it is about offsets, the group has members that must be stopped first",
        ErrorCode::TransactionalIdNotFound => "; list the transactions to see which there are",
        ErrorCode::SecurityDisabled => "; the brokers have no authorizer, see authorizer.class.name",
        ErrorCode::OffsetOutOfRange => "; list the offsets to see where the partition begins and ends",
        ErrorCode::NoReassignmentInProgress => "; there is nothing to cancel",
        ErrorCode::ElectionNotNeeded => "; the leader is the right one already",
        ErrorCode::PreferredLeaderNotAvailable => "; its broker must be up and in sync first",
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TransactionalIdAuthorizationFailed => "; an ACL must allow it",
        _ => "",
    }
}

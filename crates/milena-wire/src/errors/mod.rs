//! Error codes: their names, and whether a client may retry.

mod codes;

pub use codes::ErrorCode;

use std::fmt;

struct ErrorRow {
    name: &'static str,
    exception: &'static str,
    retriable: bool,
    invalidates_metadata: bool,
}

impl ErrorCode {
    /// `None` for a code of a newer Kafka; treat it as [`ErrorCode::UnknownServerError`].
    pub fn from_code(code: i16) -> Option<Self> {
        // The codes have no gaps and start at -1.
        let place = usize::try_from(i32::from(code) + 1).ok()?;
        Self::ALL.get(place).copied()
    }

    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Kafka's name, such as `NOT_LEADER_OR_FOLLOWER`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The class of the exception that Kafka's Java client throws; empty for [`ErrorCode::None`].
    pub const fn exception(self) -> &'static str {
        self.row().exception
    }

    /// Whether the same request may succeed when it is sent again.
    pub const fn is_retriable(self) -> bool {
        self.row().retriable
    }

    /// Whether metadata must be refreshed before the retry: the leader, the topic id or the listener has changed.
    pub const fn invalidates_metadata(self) -> bool {
        self.row().invalidates_metadata
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_by_number() {
        for error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), Some(error));
        }
        assert_eq!(ErrorCode::from_code(-2), None);
        assert_eq!(ErrorCode::from_code(ErrorCode::ALL.len() as i16), None);
        assert_eq!(ErrorCode::from_code(i16::MIN), None);
    }
}

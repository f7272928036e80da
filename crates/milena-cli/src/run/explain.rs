//! Startup errors in the terms of the application file.

use milena_app::StartError;

/// The error without names of the Rust API.
pub(super) fn explain(error: &StartError) -> String {
    match error {
        StartError::NoHandler => "no handler is declared; add a [[handlers]] table".to_owned(),
        StartError::NoGroup => "no group is set; set group at the top of the file".to_owned(),
        StartError::TwoHandlers { topic } => format!("two [[handlers]] tables read {topic}; remove one"),
        StartError::NoBulkhead { topics, name } => {
            format!("the handler of {topics} uses bulkhead {name:?}, which is not declared; add it under [bulkheads]")
        }
        StartError::NoTopic { topic } => {
            format!("topic {topic} does not exist; create it, or set wait_for_topics = true under [app]")
        }
        StartError::NoInstance => "delivery = \"exactly-once\" requires instance at the top of the file: a name that \
                                   is unique per process and stays the same after a restart"
            .to_owned(),
        StartError::NoOffsetStore { topics } => format!(
            "the handler of {topics} has delivery = \"stored-offsets\", which needs a handler in Rust that takes a \
             transaction; use \"at-least-once\""
        ),
        StartError::OurSetting { key } => {
            format!("{key} is set by the runtime; remove it from [kafka], [consumer] and [producer]")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_names_of_the_library() {
        let topic = || "orders".to_owned();
        let errors = [
            StartError::NoHandler,
            StartError::NoGroup,
            StartError::TwoHandlers { topic: topic() },
            StartError::NoBulkhead {
                topics: topic(),
                name: "database".to_owned(),
            },
            StartError::NoTopic { topic: topic() },
            StartError::NoInstance,
            StartError::NoOffsetStore { topics: topic() },
            StartError::OurSetting { key: "group.id" },
        ];
        for error in errors {
            let text = explain(&error);
            assert!(!text.contains("App::") && !text.contains("::"), "{text}");
        }
    }
}

//! Errors at the start of an application, in the words of its file.

use milena_app::StartError;

/// The error without names of the library.
pub(super) fn explain(error: &StartError) -> String {
    match error {
        StartError::NoHandler => "there is no handler; add a [[handlers]] table".to_owned(),
        StartError::NoGroup => "the group has no name; set group at the top of the file".to_owned(),
        StartError::TwoHandlers { topic } => format!("two [[handlers]] tables read {topic}; remove one"),
        StartError::NoBulkhead { topics, name } => {
            format!("the handler of {topics} names the bulkhead {name:?}; add it under [bulkheads]")
        }
        StartError::NoTopic { topic } => {
            format!("the topic {topic} does not exist; create it, or set wait_for_topics = true under [app]")
        }
        StartError::NoInstance => "delivery = \"exactly-once\" needs instance at the top of the file: the same name \
                                   when this instance starts again, another one for each"
            .to_owned(),
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
            StartError::OurSetting { key: "group.id" },
        ];
        for error in errors {
            let text = explain(&error);
            assert!(!text.contains("App::") && !text.contains("::"), "{text}");
        }
    }
}

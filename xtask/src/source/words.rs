//! Words in prose and in names.

/// The words of a text in lower case; `snake_case` and `CamelCase` names are split.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .flat_map(split_camel_case)
        .map(|word| word.to_lowercase())
}

fn split_camel_case(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let mut start = 0;
    let mut was_lower = false;
    for (place, c) in text.char_indices() {
        if c.is_uppercase() && was_lower {
            parts.push(&text[start..place]);
            start = place;
        }
        was_lower = c.is_lowercase();
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prose_are_split_alike() {
        let found: Vec<_> = words("The `errorCode` of error_code: AbortedTxn").collect();
        assert_eq!(found, ["the", "error", "code", "of", "error", "code", "aborted", "txn"]);
    }
}

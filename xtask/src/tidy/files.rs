//! Rules for single files: length, leftover marks and banners.

use std::path::Path;

use super::walls;
use crate::generate;

const LINES_MAX: usize = 800;
/// A longer file gives its reason in a line that starts with this.
const LONG_FILE_REASON: &str = "// A long file because ";

pub(super) fn check(path: &Path, text: &str) -> Vec<String> {
    let mut offences = vec![];
    let mut offend = |line: usize, what: String| offences.push(format!("{}:{line}: {what}", path.display()));

    if path.extension().is_some_and(|extension| extension == "rs") && !text.starts_with(generate::MARK) {
        let lines = text.lines().count();
        if lines > LINES_MAX && !text.contains(LONG_FILE_REASON) {
            offend(
                lines,
                format!("more than {LINES_MAX} lines; split it, or write `{LONG_FILE_REASON}…`"),
            );
        }
        for (line, name) in walls::forbidden_names(path, text) {
            offend(line, format!("`{name}` may not be named in this crate"));
        }
        if path.ends_with("src/lib.rs") && !text.starts_with("//!") {
            offend(
                1,
                "a crate opens with `//!`: its purpose, what it may touch, where to start reading".to_owned(),
            );
        }
    }
    for (line, content) in text.lines().enumerate() {
        for word in LEFTOVERS.iter().filter(|word| content.contains(**word)) {
            if !content.contains(&format!("{word}(#")) {
                offend(
                    line + 1,
                    format!("`{word}` needs an issue of its own, as in `{word}(#12)`"),
                );
            }
        }
        if path.extension().is_some_and(|extension| extension == "rs") && is_banner(content) {
            offend(
                line + 1,
                "a banner comment; a module of that name says it better".to_owned(),
            );
        }
    }
    offences
}

/// Split, so that this file does not find itself.
const LEFTOVERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

fn is_banner(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else {
        return false;
    };
    ["----", "====", "────", "****", "####"]
        .iter()
        .any(|rule| comment.contains(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(path: &str, text: &str) -> usize {
        check(Path::new(path), text).len()
    }

    #[test]
    fn each_rule_finds_its_offender() {
        let long = "fn f() {}\n".repeat(LINES_MAX + 1);
        assert_eq!(offences("a.rs", &long), 1);
        assert_eq!(
            offences("a.rs", &format!("{LONG_FILE_REASON}it is a table.\n{long}")),
            0
        );
        assert_eq!(offences("a.rs", &format!("{}{long}", generate::MARK)), 0);
        assert_eq!(offences("a.rs", &format!("// {}: later", LEFTOVERS[0])), 1);
        assert_eq!(offences("a.rs", &format!("// {}(#12): later", LEFTOVERS[0])), 0);
        assert_eq!(offences("a.rs", "// ---- helpers ----"), 1);
        assert_eq!(offences("crates/a/src/lib.rs", "mod b;"), 1);
        assert_eq!(offences("a.md", &long), 0);
    }
}

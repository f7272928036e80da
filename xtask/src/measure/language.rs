//! Counts of words in comments, per 1,000 comment lines.

use super::figures::ratio;
use crate::source::{SourceFile, words::words};

pub(super) const HEAD: [&str; 7] = [
    "comments, per 1,000",
    "lines",
    "what",
    "somebody…",
    "answer",
    "response",
    "opening What/Who/So/That",
];

/// Folders in which the other message of an API is a response and nothing else.
pub(crate) const RESPONSE_FOLDERS: [&str; 3] = [
    "crates/milena-client/src/net",
    "crates/milena-broker/src/net",
    "crates/milena-broker/src/handlers",
];

/// Pronouns in place of the noun: the client, the broker, the caller.
pub(crate) const PRONOUNS: [&str; 4] = ["somebody", "nobody", "whoever", "anybody"];

/// Words that no comment opens with.
pub(crate) const OPENINGS: [&str; 4] = ["What", "Who", "So", "That"];

/// Counts over the lines that hold nothing but a comment, in tests too.
#[derive(Default)]
pub(super) struct Language {
    lines: usize,
    what: usize,
    pronouns: usize,
    answer: usize,
    response: usize,
    openings: usize,
}

impl Language {
    pub(super) fn add(&mut self, file: &SourceFile) {
        for comment in file.lines.iter().filter_map(|line| line.comment_alone()) {
            self.lines += 1;
            self.openings += usize::from(opens_badly(&comment.text));
            for word in words(&comment.text) {
                self.what += usize::from(word == "what");
                self.pronouns += usize::from(PRONOUNS.contains(&word.as_str()));
                self.answer += usize::from(word.starts_with("answer"));
                self.response += usize::from(word.starts_with("response"));
            }
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let per_mille = |count: usize| format!("{:.1}", 1000.0 * ratio(count, self.lines));
        vec![
            self.lines.to_string(),
            per_mille(self.what),
            per_mille(self.pronouns),
            per_mille(self.answer),
            per_mille(self.response),
            self.openings.to_string(),
        ]
    }
}

/// Whether a comment line opens with a word that hides its subject.
pub(crate) fn opens_badly(comment: &str) -> bool {
    let first = comment.split(|c: char| !c.is_alphanumeric()).next();
    first.is_some_and(|first| OPENINGS.contains(&first))
}

/// How often "answer" occurs in the comments and in the code of a file.
pub(super) fn answers(file: &SourceFile) -> (usize, usize) {
    let count = |text: &str| words(text).filter(|word| word.starts_with("answer")).count();
    let comments = file.lines.iter().filter_map(|line| line.comment.as_ref());
    (
        comments.map(|comment| count(&comment.text)).sum(),
        file.lines.iter().map(|line| count(&line.code)).sum(),
    )
}

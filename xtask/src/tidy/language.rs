//! Rules about words: openings of comments, words of the glossary, names of log events, module documentation.
//!
//! `docs/glossary.md` has the words. A rule here is cheap and blunt; taste stays with the reviewer.

use std::path::Path;

use super::Offence;
use crate::{
    measure::language::{OPENINGS, PRONOUNS, RESPONSE_FOLDERS, opens_badly},
    source::{SourceFile, lines::Line, words::words},
};

/// Words that name a thing for which the glossary has another one.
struct Ban {
    rule: &'static str,
    /// Where it holds; everywhere if empty.
    folders: &'static [&'static str],
    /// A word that ends with `*` stands for all that begin so.
    words: &'static [&'static str],
    instead: &'static str,
}

const APPLICATIONS: &[&str] = &["crates/milena-app", "crates/milena-machines/src/app"];

const BANS: &[Ban] = &[
    Ban {
        rule: "pronoun",
        folders: &[],
        words: &PRONOUNS,
        instead: "the noun: the client, the broker, the caller",
    },
    Ban {
        rule: "response",
        folders: &RESPONSE_FOLDERS,
        words: &["answer*"],
        instead: "response",
    },
    Ban {
        rule: "word",
        folders: &["crates"],
        words: &["modern"],
        instead: "consumer protocol",
    },
    Ban {
        rule: "word",
        folders: APPLICATIONS,
        words: &[
            "story",
            "stories",
            "told",
            "lane",
            "lanes",
            "tier",
            "tiers",
            "flood",
            "wary",
            "condemned",
        ],
        instead: "the word of the glossary",
    },
    Ban {
        rule: "word",
        folders: &["crates/milena-client"],
        words: &["bell", "seat", "fate"],
        instead: "wakeup, delivery",
    },
];

/// Words that are only allowed after another one: a letter is a dead letter.
const PAIRS: &[(&str, &str)] = &[("letter", "dead"), ("letters", "dead")];

/// Beginnings of comment lines that hide what is compared.
const VAGUE_STARTS: [&str; 3] = ["So too", "So many", "So long"];

const LOG_MACROS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];

pub(super) fn check(file: &SourceFile) -> Vec<Offence> {
    let mut offences = vec![];
    let mut offend = |rule: &'static str, line: usize, text: String| {
        offences.push(Offence {
            rule,
            path: file.path.clone(),
            line: line + 1,
            text,
        });
    };
    if file.module_doc().is_none() {
        offend(
            "module-doc",
            0,
            "opens with no `//!`; the map prints its first line".to_owned(),
        );
    }
    for (number, line) in file.lines.iter().enumerate() {
        if opens_vaguely(&file.lines, number) {
            let openings = OPENINGS.join("/");
            offend(
                "opening",
                number,
                format!("a comment opens with a noun or a verb, not with {openings}"),
            );
        }
        for (ban, word) in banned_words(&file.path, line) {
            offend(ban.rule, number, format!("`{word}`: write {}", ban.instead));
        }
        if !line.is_test && lacks_event(&file.lines, number) {
            offend(
                "event",
                number,
                "a log line has a stable name: `event = \"snake_case\"`".to_owned(),
            );
        }
        let code = line.masked.trim_start();
        if !line.is_test && (code.starts_with("#[allow(") || code.starts_with("#![allow(")) {
            offend(
                "allow",
                number,
                "`expect` with a reason says when it is no longer needed".to_owned(),
            );
        }
    }
    offences
}

/// Whether line `number` begins a paragraph of a comment with a word that hides its subject.
fn opens_vaguely(lines: &[Line], number: usize) -> bool {
    let text = |number: usize| lines.get(number)?.comment_alone().map(|comment| comment.text.as_str());
    let Some(comment) = text(number) else {
        return false;
    };
    let before = number.checked_sub(1).and_then(text).unwrap_or_default();
    let begins = before.trim().is_empty();
    begins && opens_badly(comment) || VAGUE_STARTS.iter().any(|start| comment.starts_with(start))
}

fn banned_words(path: &Path, line: &Line) -> Vec<(&'static Ban, String)> {
    let comment = line.comment.as_ref().map_or("", |comment| comment.text.as_str());
    let mut banned = vec![];
    for text in [line.code.as_str(), comment] {
        let mut before = String::new();
        for word in words(text) {
            let ban = BANS.iter().find(|ban| ban.forbids(path, &word));
            banned.extend(ban.map(|ban| (ban, word.clone())));
            let is_alone = PAIRS.iter().any(|(second, first)| *second == word && *first != before);
            if is_alone && LETTERS.holds_in(path) {
                banned.push((&LETTERS, word.clone()));
            }
            before = word;
        }
    }
    banned
}

const LETTERS: Ban = Ban {
    rule: "word",
    folders: APPLICATIONS,
    words: &[],
    instead: "failure record, or dead letter",
};

impl Ban {
    fn forbids(&self, path: &Path, word: &str) -> bool {
        self.holds_in(path)
            && self.words.iter().any(|banned| match banned.strip_suffix('*') {
                Some(start) => word.starts_with(start),
                None => word == *banned,
            })
    }

    fn holds_in(&self, path: &Path) -> bool {
        // The rules and their tests name what they forbid.
        let is_rule = path.starts_with("xtask/src/tidy") || path.starts_with("xtask/src/measure");
        !is_rule && (self.folders.is_empty() || self.folders.iter().any(|folder| path.starts_with(folder)))
    }
}

/// Whether a log macro begins in line `number` and has no `event` field.
fn lacks_event(lines: &[Line], number: usize) -> bool {
    let Some(start) = LOG_MACROS.iter().find_map(|name| log_call(&lines[number].masked, name)) else {
        return false;
    };
    let mut depth = 0_usize;
    let mut arguments = String::new();
    let rest = lines[number + 1..].iter().map(|line| line.masked.as_str());
    for text in std::iter::once(&lines[number].masked[start..]).chain(rest) {
        for c in text.chars() {
            arguments.push(c);
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return !arguments.contains("event =");
            }
        }
    }
    false
}

/// Where the parenthesis of a call of this macro opens.
fn log_call(code: &str, name: &str) -> Option<usize> {
    let place = code.find(name)?;
    let before = code[..place].chars().next_back();
    let is_whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    is_whole.then_some(place + name.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let file = SourceFile::new(Path::new(path), text);
        check(&file).into_iter().map(|offence| offence.rule).collect()
    }

    #[test]
    fn each_rule_finds_its_offender() {
        assert_eq!(rules("a.rs", "fn a() {}"), ["module-doc"]);
        assert_eq!(rules("a.rs", "//! What it is."), ["opening"]);
        assert_eq!(rules("a.rs", "//! Offsets.\n//! That is fine in the middle."), [""; 0]);
        assert_eq!(rules("a.rs", "//! Offsets.\n//! So too here."), ["opening"]);
        assert_eq!(rules("a.rs", "//! Offsets that nobody reads."), ["pronoun"]);
        assert_eq!(rules("a.rs", "//! A.\nfn nobody_reads() {}"), ["pronoun"]);
        assert_eq!(rules("a.rs", "//! A.\n#[allow(dead_code)]\nfn a() {}"), ["allow"]);
        assert_eq!(
            rules("crates/milena-client/src/net/a.rs", "//! A.\nfn handle_answered() {}"),
            ["response"]
        );
        assert_eq!(rules("crates/milena-client/src/a.rs", "//! An answer."), [""; 0]);
        assert_eq!(
            rules("crates/milena-app/src/a.rs", "//! A dead letter.\nstruct Letter;"),
            ["word"]
        );
    }

    #[test]
    fn log_lines_need_an_event() {
        let log = |call: &str| rules("a.rs", &format!("//! A.\nfn a() {{\n    {call}\n}}"));
        assert_eq!(log("info!(partition, \"opened\");"), ["event"]);
        assert_eq!(
            log("tracing::warn!(\n        event = \"opened\",\n        \"opened\"\n    );"),
            [""; 0]
        );
        assert_eq!(log("my_info!(partition);"), [""; 0]);
    }
}

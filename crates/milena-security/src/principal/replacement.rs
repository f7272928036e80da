//! Replacements as Java's `String.replaceAll` has them.

use regex::{Captures, Regex};

/// Literal texts and groups of a match.
#[derive(Clone, Debug)]
pub(super) struct Replacement(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

impl Replacement {
    /// Parses `$1` and `${name}`, and characters after a backslash as they are.
    ///
    /// A number takes as many digits as there are groups for it. A group higher than there are is literal.
    pub(super) fn parse(text: &str, groups: usize) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' => literal.push(characters.next().ok_or("ends with a backslash")?),
                '$' => {
                    let part = match characters.next() {
                        Some('{') => {
                            let name: String = characters.by_ref().take_while(|character| *character != '}').collect();
                            Part::Named(name)
                        }
                        Some(digit) => {
                            let first = digit.to_digit(10).ok_or("has a `$` without a group; write `\\$`")? as usize;
                            if first > groups {
                                if groups == 0 {
                                    return Err("has a group, but the pattern has none");
                                }
                                literal.extend(['$', digit]);
                                continue;
                            }
                            let mut group = first;
                            while let Some(next) = characters.peek().and_then(|next| next.to_digit(10)) {
                                let longer = group * 10 + next as usize;
                                if longer > groups {
                                    break;
                                }
                                group = longer;
                                characters.next();
                            }
                            Part::Group(group)
                        }
                        None => return Err("ends with a `$`"),
                    };
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(part);
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self(parts))
    }

    /// Replaces all matches, also an empty one directly after another, as Java does.
    pub(super) fn replace_all(&self, pattern: &Regex, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut copied = 0;
        let mut from = 0;
        while let Some(captures) = (from <= text.len()).then(|| pattern.captures_at(text, from)).flatten() {
            let Some(whole) = captures.get(0) else { break };
            replaced.push_str(text.get(copied..whole.start()).unwrap_or_default());
            self.expand(&captures, &mut replaced);
            copied = whole.end();
            from = if whole.is_empty() {
                let next = text.get(copied..).and_then(|rest| rest.chars().next());
                copied + next.map_or(1, char::len_utf8)
            } else {
                copied
            };
        }
        replaced.push_str(text.get(copied..).unwrap_or_default());
        replaced
    }

    fn expand(&self, captures: &Captures<'_>, replaced: &mut String) {
        for part in &self.0 {
            let group = match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Group(number) => captures.get(*number).map(|group| group.as_str()),
                Part::Named(name) => captures.name(name).map(|group| group.as_str()),
            };
            replaced.push_str(group.unwrap_or_default());
        }
    }
}

//! Splits Rust source into lines of code and comments, with literals blanked.
//!
//! A scanner, not a parser: it knows strings, characters, raw strings and nested block comments, which is enough to count
//! braces and words without mistaking one for the other.

/// One line of a file.
#[derive(Default)]
pub(crate) struct Line {
    /// Without comments.
    pub(crate) code: String,
    /// Like `code`, with a blank for every character of a literal.
    pub(crate) masked: String,
    pub(crate) comment: Option<Comment>,
    /// Whether it belongs to an item under `#[cfg(test)]`.
    pub(crate) is_test: bool,
}

pub(crate) struct Comment {
    pub(crate) kind: CommentKind,
    /// Without the marker and the blank after it.
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentKind {
    /// `//!`
    Module,
    /// `///`
    Item,
    /// `//` or a part of a block comment.
    Plain,
}

impl Line {
    pub(crate) fn is_code(&self) -> bool {
        !self.code.trim().is_empty()
    }

    /// The comment, if the line holds nothing else.
    pub(crate) fn comment_alone(&self) -> Option<&Comment> {
        self.comment.as_ref().filter(|_| !self.is_code())
    }

    pub(crate) fn module_doc(&self) -> Option<&str> {
        let comment = self.comment.as_ref()?;
        (comment.kind == CommentKind::Module).then_some(comment.text.as_str())
    }
}

pub(crate) fn split(text: &str) -> Vec<Line> {
    let mut scanner = Scanner::default();
    let mut lines: Vec<Line> = text.lines().map(|line| scanner.line(line)).collect();
    mark_tests(&mut lines);
    lines
}

#[derive(Default)]
struct Scanner {
    state: State,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Code,
    /// Inside of so many nested block comments.
    Block(usize),
    String,
    /// A raw string that ends with a quote and so many `#`.
    Raw(usize),
}

impl Scanner {
    fn line(&mut self, text: &str) -> Line {
        let mut line = Line::default();
        let mut rest = text;
        while !rest.is_empty() {
            let taken = match self.state {
                State::Code => {
                    if let Some(comment) = line_comment(rest) {
                        line.comment = Some(comment);
                        break;
                    }
                    self.code(rest, &mut line)
                }
                State::Block(depth) => self.block(rest, depth, &mut line),
                State::String => self.string(rest, &mut line),
                State::Raw(hashes) => self.raw(rest, hashes, &mut line),
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        line
    }

    /// Takes one token of code; returns its length.
    fn code(&mut self, rest: &str, line: &mut Line) -> usize {
        if rest.starts_with("/*") {
            self.state = State::Block(1);
            return 2;
        }
        if let Some((length, hashes)) = raw_string_start(rest) {
            let continues_name = line.code.chars().next_back().is_some_and(is_name);
            if !continues_name {
                self.state = State::Raw(hashes);
                line.keep(&rest[..length], true);
                return length;
            }
        }
        if rest.starts_with('"') {
            self.state = State::String;
            line.keep("\"", true);
            return 1;
        }
        if let Some(length) = character_length(rest) {
            line.keep(&rest[..length], true);
            return length;
        }
        let length = rest.chars().next().map_or(1, char::len_utf8);
        line.keep(&rest[..length], false);
        length
    }

    fn block(&mut self, rest: &str, depth: usize, line: &mut Line) -> usize {
        if rest.starts_with("*/") {
            self.state = if depth > 1 {
                State::Block(depth - 1)
            } else {
                State::Code
            };
            return 2;
        }
        if rest.starts_with("/*") {
            self.state = State::Block(depth + 1);
            return 2;
        }
        let length = rest.chars().next().map_or(1, char::len_utf8);
        let comment = line.comment.get_or_insert_with(|| Comment {
            kind: CommentKind::Plain,
            text: String::new(),
        });
        comment.text.push_str(&rest[..length]);
        length
    }

    fn string(&mut self, rest: &str, line: &mut Line) -> usize {
        let mut length = rest.chars().next().map_or(1, char::len_utf8);
        if let Some(escaped) = rest.strip_prefix('\\') {
            length += escaped.chars().next().map_or(0, char::len_utf8);
        } else if rest.starts_with('"') {
            self.state = State::Code;
        }
        line.keep(&rest[..length], true);
        length
    }

    fn raw(&mut self, rest: &str, hashes: usize, line: &mut Line) -> usize {
        let end = format!("\"{}", "#".repeat(hashes));
        let length = if rest.starts_with(&end) {
            self.state = State::Code;
            end.len()
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        line.keep(&rest[..length], true);
        length
    }
}

impl Line {
    fn keep(&mut self, text: &str, is_literal: bool) {
        self.code.push_str(text);
        if is_literal {
            self.masked.extend(text.chars().map(|_| ' '));
        } else {
            self.masked.push_str(text);
        }
    }
}

fn line_comment(rest: &str) -> Option<Comment> {
    let text = rest.strip_prefix("//")?;
    let (kind, text) = match text.as_bytes().first() {
        Some(b'!') => (CommentKind::Module, &text[1..]),
        Some(b'/') => (CommentKind::Item, &text[1..]),
        _ => (CommentKind::Plain, text),
    };
    let text = text.strip_prefix(' ').unwrap_or(text).to_owned();
    Some(Comment { kind, text })
}

/// Length of `r#"` and the number of its `#`, also after `b`.
fn raw_string_start(rest: &str) -> Option<(usize, usize)> {
    let body = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let hashes = body.bytes().take_while(|byte| *byte == b'#').count();
    let is_string = body.as_bytes().get(hashes) == Some(&b'"');
    is_string.then_some((rest.len() - body.len() + hashes + 1, hashes))
}

/// Length of a character literal; none for a lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    if let Some(escaped) = body.strip_prefix('\\') {
        let after = escaped.chars().next()?.len_utf8();
        let end = escaped.get(after..)?.find('\'')?;
        return Some(2 + after + end + 1);
    }
    let length = body.chars().next()?.len_utf8();
    body.get(length..)?.starts_with('\'').then_some(length + 2)
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Marks the lines of items under `#[cfg(test)]`.
fn mark_tests(lines: &mut [Line]) {
    let mut first = 0;
    while let Some(found) = lines[first..]
        .iter()
        .position(|line| line.masked.contains("#[cfg(test)]"))
    {
        let start = first + found;
        let end = item_end(lines, start);
        for line in &mut lines[start..=end] {
            line.is_test = true;
        }
        first = end + 1;
    }
}

/// The last line of the item whose first attribute is `#[cfg(test)]` in line `start`.
fn item_end(lines: &[Line], start: usize) -> usize {
    let mut depth = 0_usize;
    for (number, line) in lines.iter().enumerate().skip(start) {
        let code = line.masked.split_once("#[cfg(test)]").filter(|_| number == start);
        let code = code.map_or(line.masked.as_str(), |(_, after)| after);
        for c in code.chars() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && c == '}' {
                        return number;
                    }
                }
                ';' if depth == 0 => return number,
                _ => {}
            }
        }
    }
    lines.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_told_apart_from_code() {
        let text =
            "let a = \"// no {\"; // yes\nlet b = 'x'; let c: &'a str = r#\"\" }\"#;\n/* one\n/* two */ */ fn f() {}";
        let lines = split(text);
        assert_eq!(lines[0].code, "let a = \"// no {\"; ");
        assert!(!lines[0].masked.contains('{'));
        assert_eq!(
            lines[0].comment.as_ref().map(|comment| comment.text.as_str()),
            Some("yes")
        );
        assert!(lines[1].masked.contains("&'a str"));
        assert!(!lines[1].masked.contains('}'));
        assert!(!lines[2].is_code());
        assert_eq!(lines[3].code.trim(), "fn f() {}");
    }

    #[test]
    fn test_items_end_with_their_brace() {
        let text = "fn a() {}\n#[cfg(test)]\n#[expect(x)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}";
        let marks: String = split(text)
            .iter()
            .map(|line| if line.is_test { 't' } else { '.' })
            .collect();
        assert_eq!(marks, ".ttttt.tt.");
    }

    #[test]
    fn kinds_of_comments() {
        let kinds: Vec<_> = split("//! a\n/// b\n// c")
            .iter()
            .filter_map(|line| line.comment_alone().map(|comment| comment.kind))
            .collect();
        assert_eq!(kinds, [CommentKind::Module, CommentKind::Item, CommentKind::Plain]);
    }
}

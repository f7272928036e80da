//! Java's `.properties` format.

use crate::map::Line;

/// Parses every setting of the text, with comments, escapes and continued lines as in `java.util.Properties`.
pub(crate) fn parse(text: &str) -> Vec<Line> {
    let lines = logical_lines(text).into_iter();
    let settings = lines.map(|(line, content)| {
        let (key, value) = split_key(&content);
        let content = unescape(key).and_then(|key| Ok((key, unescape(value)?)));
        let content = content.map_err(str::to_owned);
        Line { line, content }
    });
    settings.collect()
}

/// The lines that are neither blank nor comments, each joined with its continuations and numbered by its first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.lines().enumerate();
    let mut logical = Vec::new();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(is_space);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut content = line.to_owned();
        while is_continued(&content) {
            content.pop();
            let Some((_, next)) = lines.next() else { break };
            content.push_str(next.trim_start_matches(is_space));
        }
        logical.push((number + 1, content));
    }
    logical
}

/// A line is continued if it ends in a backslash that is not itself escaped.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|character| *character == '\\').count() % 2 == 1
}

/// A key ends at the first unescaped white space, `=` or `:`.
fn split_key(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (is_space(character) || matches!(character, '=' | ':'));
        escaped = !escaped && character == '\\';
        ends
    });
    let (key, rest) = line.split_at_checked(end.unwrap_or(line.len())).unwrap_or((line, ""));
    let rest = rest.trim_start_matches(is_space);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_space))
}

fn unescape(text: &str) -> Result<String, &'static str> {
    // Escapes are units of UTF-16: a character may be two of them.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let meant = match character {
            '\\' => match characters.next() {
                Some('u') => {
                    units.push(read_unit(&mut characters).ok_or("\\u needs four hexadecimal digits")?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(meant.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).map_err(|_| "\\u is one half of a surrogate pair without the other")
}

fn read_unit(characters: &mut std::str::Chars<'_>) -> Option<u16> {
    let digits = characters.as_str().get(..4)?;
    let unit = digits
        .bytes()
        .all(|digit| digit.is_ascii_hexdigit())
        .then(|| u16::from_str_radix(digits, 16).ok())?;
    characters.nth(3)?;
    unit
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Vec<(String, String)> {
        parse(text).into_iter().map(|line| line.content.unwrap()).collect()
    }

    /// The expected settings are those that `java.util.Properties` reads.
    #[test]
    fn lines_mean_what_they_mean_to_java() {
        for (text, key, value) in [
            ("a=b\\\n   c", "a", "bc"),
            ("k\\:x:v", "k:x", "v"),
            ("  lead = trail  ", "lead", "trail  "),
            ("empty", "empty", ""),
            ("e2=", "e2", ""),
            ("u=\\u00e9\\t\\q", "u", "é\tq"),
            ("u=\\ud83e\\udd80", "u", "🦀"),
            ("sp\\ ace w", "sp ace", "w"),
            ("c1=a\\\\", "c1", "a\\"),
            ("d=1\\\n#notcomment", "d", "1#notcomment"),
            ("x==y", "x", "=y"),
            ("z = : w", "z", ": w"),
            ("end\\", "end", ""),
            ("! x\r\n#y\r\rcrlf=1\r\n", "crlf", "1"),
            ("# a comment does not go on \\\na=1", "a", "1"),
            ("a\\\\=b", "a\\", "b"),
        ] {
            assert_eq!(settings(text), [(key.to_owned(), value.to_owned())], "{text:?}");
        }
        assert_eq!(settings(" \n\n#\n"), []);
    }

    #[test]
    fn errors_have_the_line() {
        for (text, expected) in [
            ("a=1\nb=\\u12g4", (2, "\\u needs four hexadecimal digits")),
            ("a=\\u00e", (1, "\\u needs four hexadecimal digits")),
            ("a=\\u+123", (1, "\\u needs four hexadecimal digits")),
            ("a=\\u00é", (1, "\\u needs four hexadecimal digits")),
            (
                "a=1\\\n2\n\nb=\\ud83e",
                (4, "\\u is one half of a surrogate pair without the other"),
            ),
        ] {
            let lines = parse(text);
            let errors = lines
                .iter()
                .filter_map(|line| Some((line.line, line.content.as_ref().err()?.as_str())));
            assert_eq!(errors.collect::<Vec<_>>(), [expected], "{text:?}");
        }
    }
}

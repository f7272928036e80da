//! Java's `.properties` files.

use super::map::Line;

/// Every setting of the text, with its comments, escapes and continued lines understood.
pub(super) fn parse(text: &str) -> Vec<Line> {
    let lines = logical_lines(text).into_iter();
    let settings = lines.map(|(line, content)| {
        let (key, value) = split_key(&content);
        let content = unescape(key).and_then(|key| Ok((key, unescape(value)?)));
        let content = content.map_err(str::to_owned);
        Line { line, content }
    });
    settings.collect()
}

/// The lines that say something, continued ones as one, each with the number of its first line.
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

/// A line goes on if it ends in a backslash that no other backslash escapes.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|character| *character == '\\').count() % 2 == 1
}

/// A key ends at the first white space, `=` or `:` that is not escaped.
fn split_key(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|character: char| {
        let ends = !escaped && (is_space(character) || matches!(character, '=' | ':'));
        escaped = character == '\\' && !escaped;
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
    String::from_utf16(&units).map_err(|_| "\\u stands for half a character")
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

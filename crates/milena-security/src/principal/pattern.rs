//! Java's regular expressions in the syntax of the crate `regex`.
//!
//! Both are nearly the same. Classes such as `\w` are ASCII in Java; a few texts have another meaning and are translated
//! or refused, so that no pattern silently matches something else.

use std::{iter::Peekable, str::Chars};

/// Translates a pattern. Constructs without an equivalent that `regex` refuses by itself are passed on.
pub(super) fn translate(pattern: &str) -> Result<String, &'static str> {
    let mut translated = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut depth = 0_usize;
    // Whether the character before ended a quantifier.
    let mut is_quantified = false;
    while let Some(character) = characters.next() {
        let was_quantified = std::mem::take(&mut is_quantified);
        match character {
            '\\' => translated.push_str(&escape(&mut characters)?),
            '[' => {
                depth += 1;
                translated.push('[');
            }
            ']' if depth > 0 => {
                depth -= 1;
                translated.push(']');
            }
            // Operators of classes in `regex` that are plain characters in Java.
            '~' if depth > 0 => translated.push_str("\\~"),
            '-' if depth > 0 && characters.peek() == Some(&'-') => {
                return Err("has `--` in a character class; write `\\-`");
            }
            '+' if depth == 0 && was_quantified => return Err("has a possessive quantifier, which is not supported"),
            '*' | '+' | '?' | '}' if depth == 0 => {
                is_quantified = true;
                translated.push(character);
            }
            _ => translated.push(character),
        }
        // After `a*?`, a plus is no possessive quantifier but an error of Java; `regex` must not accept it either.
        if was_quantified && character == '*' && depth == 0 {
            return Err("has two quantifiers in a row");
        }
    }
    Ok(translated)
}

/// The translation of an escape, of which the backslash has been read.
fn escape(characters: &mut Peekable<Chars<'_>>) -> Result<String, &'static str> {
    let Some(character) = characters.next() else {
        return Err("ends with a backslash");
    };
    Ok(match character {
        'w' => "[a-zA-Z0-9_]".to_owned(),
        'W' => "[^a-zA-Z0-9_]".to_owned(),
        'd' => "[0-9]".to_owned(),
        'D' => "[^0-9]".to_owned(),
        's' => r"[\t\n\x0b\f\r ]".to_owned(),
        'S' => r"[^\t\n\x0b\f\r ]".to_owned(),
        'h' => r"[ \t\xA0\u{1680}\u{180e}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}]".to_owned(),
        'e' => r"\x1b".to_owned(),
        // Boundaries of words in `regex`, plain characters in Java.
        '<' | '>' => character.to_string(),
        'Q' => return quoted(characters),
        other => format!("\\{other}"),
    })
}

/// Literal text up to `\E`.
fn quoted(characters: &mut Peekable<Chars<'_>>) -> Result<String, &'static str> {
    let rest: String = characters.clone().collect();
    let literal = rest.split_once("\\E").map_or(rest.as_str(), |(literal, _)| literal);
    let skipped = literal.chars().count() + if literal.len() < rest.len() { 2 } else { 0 };
    for _ in 0..skipped {
        characters.next();
    }
    Ok(regex::escape(literal))
}

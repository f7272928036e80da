//! Java's log-in texts: `sasl.jaas.config`.

use std::{collections::BTreeMap, iter::Peekable, str::Chars};

use crate::Secret;

/// One log-in module with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasEntry {
    /// The class of the module, as `org.apache.kafka.common.security.plain.PlainLoginModule`.
    pub module: String,
    pub flag: ControlFlag,
    /// All values are treated as secrets, because passwords are among them under any name.
    pub options: BTreeMap<String, Secret>,
}

impl JaasEntry {
    pub fn option(&self, name: &str) -> Option<&Secret> {
        self.options.get(name)
    }

    /// The class of the module without its package.
    pub fn class_name(&self) -> &str {
        self.module.rsplit('.').next().unwrap_or(&self.module)
    }
}

/// Control flag of a module. Only one module is allowed, so that all four mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFlag {
    Required,
    Requisite,
    Sufficient,
    Optional,
}

/// Parses `<class> <flag> key=value …;` with exactly one module.
///
/// Words have letters, digits, `.`, `-`, `_` and `$`, and begin with a letter, `_` or `$`; everything else is quoted, with
/// Java's escapes. A `/` begins a comment up to the end of the line. Other than in Java, a quote that is not closed on its
/// line is an error, because the value would be cut.
pub fn parse(text: &str) -> Result<JaasEntry, JaasError> {
    let mut tokens = Tokenizer {
        characters: text.chars().peekable(),
    };
    let module = match tokens.next()? {
        None => return Err(JaasError::NoModule),
        Some(Token::Word(module)) => module,
        Some(Token::Symbol(found)) => {
            return Err(JaasError::Symbol {
                found,
                place: "the login module",
            });
        }
    };
    let flag = parse_flag(tokens.next()?)?;
    let mut options = BTreeMap::new();
    loop {
        let key = match tokens.next()? {
            Some(Token::Symbol(';')) => break,
            Some(Token::Symbol(found)) => {
                return Err(JaasError::Symbol {
                    found,
                    place: "an option",
                });
            }
            Some(Token::Word(key)) => key,
            None => return Err(JaasError::NoSemicolon),
        };
        let has_equals = matches!(tokens.next()?, Some(Token::Symbol('=')));
        match tokens.next() {
            Ok(Some(Token::Word(value))) if has_equals => options.insert(key, Secret::from(value)),
            Err(error) => return Err(error),
            _ => return Err(JaasError::NoValue { key }),
        };
    }
    match tokens.next()? {
        None => Ok(JaasEntry { module, flag, options }),
        Some(_) => Err(JaasError::ManyModules),
    }
}

fn parse_flag(token: Option<Token>) -> Result<ControlFlag, JaasError> {
    let Some(Token::Word(flag)) = token else {
        return Err(JaasError::NoFlag);
    };
    match flag.to_ascii_uppercase().as_str() {
        "REQUIRED" => Ok(ControlFlag::Required),
        "REQUISITE" => Ok(ControlFlag::Requisite),
        "SUFFICIENT" => Ok(ControlFlag::Sufficient),
        "OPTIONAL" => Ok(ControlFlag::Optional),
        // Not shown: it may be a password of a text without a flag.
        _ => Err(JaasError::BadFlag),
    }
}

enum Token {
    /// A word or a quoted text.
    Word(String),
    Symbol(char),
}

/// Java's `StreamTokenizer`, with the settings that Kafka gives it.
struct Tokenizer<'a> {
    characters: Peekable<Chars<'a>>,
}

impl Tokenizer<'_> {
    fn next(&mut self) -> Result<Option<Token>, JaasError> {
        while let Some(character) = self.characters.next() {
            return Ok(Some(match character {
                '\0'..=' ' => continue,
                '/' => {
                    self.skip_comment();
                    continue;
                }
                '"' | '\'' => Token::Word(self.quoted(character)?),
                _ if begins_word(character) => {
                    let mut word = String::from(character);
                    while let Some(next) = self.characters.next_if(|next| continues_word(*next)) {
                        word.push(next);
                    }
                    Token::Word(word)
                }
                symbol => Token::Symbol(symbol),
            }));
        }
        Ok(None)
    }

    /// Skips `/* … */`, or anything else after a slash up to the end of the line.
    fn skip_comment(&mut self) {
        if self.characters.next_if_eq(&'*').is_none() {
            while self.characters.next_if(|next| !is_line_end(*next)).is_some() {}
            return;
        }
        let mut previous = ' ';
        for character in self.characters.by_ref() {
            if previous == '*' && character == '/' {
                return;
            }
            previous = character;
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, JaasError> {
        let mut text = String::new();
        loop {
            match self.characters.next() {
                Some(character) if character == quote => return Ok(text),
                Some('\\') => text.push(self.escaped().ok_or(JaasError::OpenQuote)?),
                Some(character) if !is_line_end(character) => text.push(character),
                _ => return Err(JaasError::OpenQuote),
            }
        }
    }

    /// The character that an escape stands for; octal numbers have up to three digits.
    fn escaped(&mut self) -> Option<char> {
        Some(match self.characters.next()? {
            first @ '0'..='7' => {
                let digits = if first <= '3' { 2 } else { 1 };
                let mut number = first.to_digit(8)?;
                for _ in 0..digits {
                    let Some(next) = self.characters.next_if(|next| next.is_digit(8)) else {
                        break;
                    };
                    number = number * 8 + next.to_digit(8)?;
                }
                char::from_u32(number)?
            }
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            other => other,
        })
    }
}

fn begins_word(character: char) -> bool {
    character.is_ascii_alphabetic() || matches!(character, '_' | '$' | '\u{a0}'..)
}

/// A digit, a dot or a minus at the beginning would be a number, which no part of an entry is.
fn continues_word(character: char) -> bool {
    begins_word(character) || character.is_ascii_digit() || matches!(character, '.' | '-')
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r')
}

/// A text that is not one log-in module. Never contains a value of it.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JaasError {
    #[error("Login module not specified in JAAS config")]
    NoModule,
    #[error("Login module control flag not specified in JAAS config; write `<class> required key=\"value\";`")]
    NoFlag,
    #[error("Invalid login module control flag in JAAS config; use required, requisite, sufficient or optional")]
    BadFlag,
    #[error("Value not specified for key '{key}' in JAAS config; write {key}=\"value\"")]
    NoValue { key: String },
    #[error("JAAS config entry not terminated by semi-colon")]
    NoSemicolon,
    #[error("a quote in JAAS config is not closed on its line")]
    OpenQuote,
    #[error("`{found}` in JAAS config where {place} is expected")]
    Symbol { found: char, place: &'static str },
    #[error("JAAS config property contains more than one login module, should be 1 module")]
    ManyModules,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(text: &str) -> Vec<(String, String)> {
        let entry = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let options = entry.options.iter();
        options
            .map(|(key, value)| (key.clone(), value.expose().to_owned()))
            .collect()
    }

    #[test]
    fn the_usual_text_is_read() {
        let entry = parse(
            "org.apache.kafka.common.security.plain.PlainLoginModule required\n  username=\"alice\"\n  password=\"alice-secret\";",
        )
        .unwrap();
        assert_eq!(entry.class_name(), "PlainLoginModule");
        assert_eq!(entry.flag, ControlFlag::Required);
        assert_eq!(entry.option("username").unwrap().expose(), "alice");
        assert_eq!(entry.option("password").unwrap().expose(), "alice-secret");
        assert!(!format!("{entry:?}").contains("alice-secret"));
    }

    /// The options that Kafka 4.3 reads from the same texts.
    #[test]
    fn words_quotes_and_comments_are_those_of_java() {
        for (text, expected) in [
            ("m required;", &[][..]),
            ("m REQUIRED a=b3;", &[("a", "b3")]),
            ("m required b=\"x\\n\\101\\q\" c='d';", &[("b", "x\nAq"), ("c", "d")]),
            ("m required a=b//c\n;", &[("a", "b")]),
            ("m required /* x=y; */ a=b;", &[("a", "b")]),
            ("m required a=€;", &[("a", "€")]),
            ("m required a=\"x\"y=z;", &[("a", "x"), ("y", "z")]),
            ("m required a=\"\\777\\07x\\400\";", &[("a", "?7\u{7}x 0")]),
            ("m required a.b-c_d$e=f.g-h;", &[("a.b-c_d$e", "f.g-h")]),
            ("m required a=\"it's; =/ \\\"fine\\\"\";", &[("a", "it's; =/ \"fine\"")]),
            ("'m' 'optional' 'a b'='c';", &[("a b", "c")]),
            ("m required a=b a=c;", &[("a", "c")]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(options(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_the_place_and_no_value() {
        for (text, error) in [
            ("", JaasError::NoModule),
            ("  // nothing", JaasError::NoModule),
            ("m", JaasError::NoFlag),
            ("m;", JaasError::NoFlag),
            ("m secret a=b;", JaasError::BadFlag),
            ("m required a=b", JaasError::NoSemicolon),
            ("m required a;", JaasError::NoValue { key: "a".to_owned() }),
            ("m required a=;", JaasError::NoValue { key: "a".to_owned() }),
            ("m required a=3;", JaasError::NoValue { key: "a".to_owned() }),
            ("m required a=3x;", JaasError::NoValue { key: "a".to_owned() }),
            ("m required a=-x;", JaasError::NoValue { key: "a".to_owned() }),
            (
                "m required a=b:c;",
                JaasError::Symbol {
                    found: ':',
                    place: "an option",
                },
            ),
            (
                "m required a=b@c;",
                JaasError::Symbol {
                    found: '@',
                    place: "an option",
                },
            ),
            ("m required a=/etc/x;\nb;c=d;", JaasError::ManyModules),
            ("m required a b;", JaasError::NoValue { key: "a".to_owned() }),
            (
                "m required =b;",
                JaasError::Symbol {
                    found: '=',
                    place: "an option",
                },
            ),
            ("m required a=\"b;", JaasError::OpenQuote),
            ("m required a='b\nc=d;", JaasError::OpenQuote),
            ("m required a=\"b\\", JaasError::OpenQuote),
            ("m required a=b; n required;", JaasError::ManyModules),
            (
                "= required;",
                JaasError::Symbol {
                    found: '=',
                    place: "the login module",
                },
            ),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn quoted_values_come_back(value in "[^\r\n]{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let text = format!("a.B required password=\"{quoted}\" x=y;");
            let entry = parse(&text).unwrap();
            prop_assert_eq!(entry.option("password").unwrap().expose(), value);
        }
    }
}

//! Names of clients from their certificates: `ssl.principal.mapping.rules`.

mod pattern;
mod replacement;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::Regex;

use self::{pattern::translate, replacement::Replacement};
use crate::x509::{Certificate, rfc2253};

/// Rules that turn the subject of a certificate into the name of a principal. The default is the subject itself.
#[derive(Clone, Debug)]
pub struct PrincipalMapper {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
enum Rule {
    /// The subject itself.
    Default,
    Replace(Replace),
}

/// A pattern for the whole name, and the text that replaces its matches.
#[derive(Clone, Debug)]
struct Replace {
    whole: Regex,
    /// The same pattern, for the matches that are replaced: they may be shorter than the whole name.
    part: Regex,
    replacement: Replacement,
    case: Case,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Same,
    Lower,
    Upper,
}

/// A rule: `DEFAULT`, `RULE:pattern/replacement/` with `L` or `U`, or something else that is an error unless it is empty.
const RULE: &str = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)";

impl PrincipalMapper {
    /// Parses rules in Kafka's syntax: a comma-separated list of `DEFAULT` and `RULE:pattern/replacement/[LU]`.
    ///
    /// Patterns are Java's regular expressions. Those that cannot be translated, as look-around and back-references, are
    /// errors.
    pub fn parse(rules: &str) -> Result<Self, PrincipalError> {
        // Commas separate rules and are in patterns: only the grammar of a whole rule finds its end.
        static SPLITTER: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(&format!(r"(?-u:\s)*({RULE})(?-u:\s)*(?:,(?-u:\s)*|$)")).ok());
        static PARSER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!(r"\A(?:{RULE})")).ok());
        let (Some(splitter), Some(parser)) = (&*SPLITTER, &*PARSER) else {
            return Err(PrincipalError::Rule("internal error: bad grammar".to_owned()));
        };
        let text = rules.trim_matches(|character: char| character <= ' ');
        let mut parsed = Vec::new();
        for found in splitter.captures_iter(text) {
            let text = found.get(1).map_or("", |rule| rule.as_str());
            let captures = parser.captures(text);
            let length = captures.as_ref().and_then(|all| all.get(0)).map(|whole| whole.end());
            let Some(captures) = captures.filter(|_| length == Some(text.len())) else {
                return Err(PrincipalError::Rule(format!(
                    "`{text}` is neither DEFAULT nor RULE:pattern/replacement/[LU]"
                )));
            };
            if captures.get(1).is_some() {
                parsed.push(Rule::Default);
            } else if let (Some(pattern), Some(replacement)) = (captures.get(2), captures.get(3)) {
                let case = captures.get(4).map_or("", |case| case.as_str());
                parsed.push(Rule::Replace(Replace::new(
                    pattern.as_str(),
                    replacement.as_str(),
                    case,
                )?));
            }
        }
        Ok(Self { rules: parsed })
    }

    /// The principal's name for a client's certificate in DER: its subject as of RFC 2253, changed by the first rule that
    /// matches.
    pub fn name(&self, leaf_der: &[u8]) -> Result<String, PrincipalError> {
        self.map(&subject(leaf_der)?)
    }

    /// The name for a distinguished name as of RFC 2253.
    pub fn map(&self, distinguished_name: &str) -> Result<String, PrincipalError> {
        for rule in &self.rules {
            match rule {
                Rule::Default => return Ok(distinguished_name.to_owned()),
                Rule::Replace(rule) => {
                    if let Some(name) = rule.apply(distinguished_name) {
                        return Ok(name);
                    }
                }
            }
        }
        Err(PrincipalError::NoRule {
            distinguished_name: distinguished_name.to_owned(),
        })
    }
}

impl Default for PrincipalMapper {
    fn default() -> Self {
        Self {
            rules: vec![Rule::Default],
        }
    }
}

/// The subject of a certificate as of RFC 2253, as Java writes it.
pub fn subject(certificate_der: &[u8]) -> Result<String, PrincipalError> {
    let error = |error: crate::x509::der::DerError| PrincipalError::Certificate(error.to_string());
    let certificate = Certificate::parse(certificate_der).map_err(error)?;
    rfc2253(certificate.subject).map_err(error)
}

impl Replace {
    fn new(pattern: &str, replacement: &str, case: &str) -> Result<Self, PrincipalError> {
        let error = |problem: String| PrincipalError::Rule(format!("the pattern `{pattern}` {problem}"));
        let translated = translate(pattern).map_err(|problem| error(problem.to_owned()))?;
        let compile = |text: &str| {
            Regex::new(text).map_err(|problem| {
                // The last line has the reason, those before point into the pattern.
                let problem = problem.to_string();
                let reason = problem.lines().last().unwrap_or_default().trim().to_owned();
                error(format!("is not supported: {reason}"))
            })
        };
        let part = compile(&translated)?;
        Ok(Self {
            whole: compile(&format!("\\A(?:{translated})\\z"))?,
            replacement: Replacement::parse(replacement, part.captures_len() - 1)
                .map_err(|problem| PrincipalError::Rule(format!("the replacement `{replacement}` {problem}")))?,
            part,
            case: match case {
                "L" => Case::Lower,
                "U" => Case::Upper,
                _ => Case::Same,
            },
        })
    }

    fn apply(&self, name: &str) -> Option<String> {
        if !self.whole.is_match(name) {
            return None;
        }
        let replaced = self.replacement.replace_all(&self.part, name);
        Some(match self.case {
            Case::Same => replaced,
            Case::Lower => replaced.to_lowercase(),
            Case::Upper => replaced.to_uppercase(),
        })
    }
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrincipalError {
    /// Not a rule of Kafka's syntax.
    #[error("ssl.principal.mapping.rules: {0}")]
    Rule(String),
    #[error("no rule of ssl.principal.mapping.rules applies to {distinguished_name}")]
    NoRule { distinguished_name: String },
    #[error("cannot read the subject of the client's certificate: {0}")]
    Certificate(String),
}

//! References to secrets in configs: `${file:path:key}`, `${dir:path:file}`, `${env:NAME}`.

mod provider;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use self::provider::Provider;
use crate::Secret;

const PROVIDERS: &str = "config.providers";

/// Providers of secrets: `file`, `dir` and `env`, and those that a config declares by `config.providers`.
#[derive(Clone, Debug)]
pub struct Resolver {
    providers: BTreeMap<String, Provider>,
}

impl Resolver {
    /// Reads `config.providers`, `config.providers.<name>.class` and `config.providers.<name>.param.*`. Other keys are ignored.
    ///
    /// The names `file`, `dir` and `env` need no declaration; a declaration may restrict them.
    pub fn from_config<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ReferenceError> {
        let settings: BTreeMap<&str, &str> = settings
            .into_iter()
            .filter(|(key, _)| key.starts_with(PROVIDERS))
            .collect();
        let mut resolver = Self::default();
        let names = settings.get(PROVIDERS).copied().unwrap_or_default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let class_key = format!("{PROVIDERS}.{name}.class");
            let class = settings
                .get(class_key.as_str())
                .ok_or_else(|| ReferenceError::Provider {
                    key: class_key.clone(),
                    problem: format!("is missing, but config.providers names `{name}`"),
                })?;
            let mut provider = Provider::of_class(class.trim()).map_err(|problem| ReferenceError::Provider {
                key: class_key.clone(),
                problem,
            })?;
            let prefix = format!("{PROVIDERS}.{name}.param.");
            for (key, value) in &settings {
                let Some(parameter) = key.strip_prefix(prefix.as_str()) else {
                    continue;
                };
                provider
                    .set(parameter, value)
                    .map_err(|problem| ReferenceError::Provider {
                        key: (*key).to_owned(),
                        problem,
                    })?;
            }
            resolver.providers.insert(name.to_owned(), provider);
        }
        Ok(resolver)
    }

    /// Replaces all references in a value. The result is not searched again.
    ///
    /// An unknown provider or key is an error, unlike in Kafka, which would use the reference itself as the password.
    pub fn resolve(&self, text: &str) -> Result<Secret, ReferenceError> {
        let mut resolved = Zeroizing::new(String::with_capacity(text.len()));
        let mut rest = text;
        while let Some(found) = find(rest) {
            resolved.push_str(found.before);
            let error = |problem: String| ReferenceError::Reference {
                reference: found.whole.to_owned(),
                problem,
            };
            let provider = self.providers.get(found.provider).ok_or_else(|| {
                let names: Vec<_> = self.providers.keys().map(String::as_str).collect();
                error(format!(
                    "there is no provider `{}`, only {}",
                    found.provider,
                    names.join(", ")
                ))
            })?;
            let value = provider.get(found.path, found.key).map_err(error)?;
            resolved.push_str(&value);
            rest = found.after;
        }
        resolved.push_str(rest);
        Ok(Secret::from(resolved.as_str()))
    }
}

impl Default for Resolver {
    fn default() -> Self {
        let providers = [
            ("file", Provider::file()),
            ("dir", Provider::directory()),
            ("env", Provider::environment()),
        ];
        Self {
            providers: providers.map(|(name, provider)| (name.to_owned(), provider)).into(),
        }
    }
}

/// Replaces references to the providers `file`, `dir` and `env`.
pub fn resolve(text: &str) -> Result<Secret, ReferenceError> {
    Resolver::default().resolve(text)
}

/// Whether a text has a reference.
pub fn has_reference(text: &str) -> bool {
    find(text).is_some()
}

/// One reference in a text.
struct Found<'a> {
    before: &'a str,
    whole: &'a str,
    provider: &'a str,
    path: Option<&'a str>,
    key: &'a str,
    after: &'a str,
}

/// Finds the first `${provider:key}` or `${provider:path:key}`. Braces without a colon are ordinary text.
fn find(text: &str) -> Option<Found<'_>> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find("${")?;
        let inside = text.get(start + 2..)?;
        let (inside, after) = inside.split_once('}')?;
        let Some((provider, rest)) = inside.split_once(':') else {
            from = start + 2;
            continue;
        };
        let (path, key) = split_path(rest);
        return Some(Found {
            before: text.get(..start)?,
            whole: text.get(start..text.len() - after.len())?,
            provider,
            path,
            key,
            after,
        });
    }
}

/// Splits at the first colon, but not behind the drive of a Windows path.
fn split_path(text: &str) -> (Option<&str>, &str) {
    let has_drive = matches!(text.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let search_from = if has_drive { 2 } else { 0 };
    let colon = text.get(search_from..).and_then(|rest| rest.find(':'));
    let split = colon.and_then(|colon| Some((text.get(..search_from + colon)?, text.get(search_from + colon + 1..)?)));
    match split {
        Some((path, key)) => (Some(path), key),
        None => (None, text),
    }
}

/// A reference or a provider that does not work. Never contains a secret.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReferenceError {
    #[error("`{reference}`: {problem}")]
    Reference { reference: String, problem: String },
    #[error("{key}: {problem}")]
    Provider { key: String, problem: String },
}

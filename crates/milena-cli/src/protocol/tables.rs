//! The APIs and the error codes.

use std::io::Write;

use anyhow::{Context, Result};
use milena_wire::{api::ApiKey, errors::ErrorCode, message::VersionRange};

pub(super) fn apis(out: &mut impl Write) -> Result<()> {
    writeln!(out, "{:>4}  {:<30} {:>8} {:>8}", "KEY", "API", "CLIENT", "BROKER")?;
    for key in ApiKey::ALL {
        let client = range(key.client_versions());
        let broker = range(key.broker_versions());
        writeln!(out, "{:>4}  {:<30} {client:>8} {broker:>8}", key.id(), key.name())?;
    }
    Ok(())
}

fn range(versions: Option<VersionRange>) -> String {
    match versions {
        None => "-".to_owned(),
        Some(VersionRange { min, max }) if min == max => min.to_string(),
        Some(VersionRange { min, max }) => format!("{min}-{max}"),
    }
}

pub(super) fn errors(out: &mut impl Write) -> Result<()> {
    writeln!(out, "{:>4}  {:<38} RETRIABLE", "CODE", "NAME")?;
    for error in ErrorCode::ALL {
        let retriable = if error.is_retriable() { "yes" } else { "no" };
        writeln!(out, "{:>4}  {:<38} {retriable}", error.code(), error.name())?;
    }
    Ok(())
}

pub(super) fn error(out: &mut impl Write, text: &str) -> Result<()> {
    let found = match text.parse() {
        Ok(code) => ErrorCode::from_code(code),
        Err(_) => ErrorCode::ALL
            .into_iter()
            .find(|error| error.name().eq_ignore_ascii_case(text)),
    };
    let error = found.with_context(|| {
        format!("no error {text:?}; give a code or a name from the list of `milena protocol errors`")
    })?;
    writeln!(out, "code        {}", error.code())?;
    writeln!(out, "name        {}", error.name())?;
    if !error.exception().is_empty() {
        writeln!(out, "in Java     {}", error.exception())?;
    }
    let retry = match (error.is_retriable(), error.invalidates_metadata()) {
        (true, true) => "retry after a refresh of metadata",
        (true, false) => "retry",
        (false, _) if error == ErrorCode::None => "nothing",
        (false, _) => "do not retry the same request",
    };
    writeln!(out, "what to do  {retry}")?;
    Ok(())
}

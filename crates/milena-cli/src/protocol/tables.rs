//! Tables of APIs and error codes.

use std::io::Write;

use anyhow::{Context, Result};
use milena_wire::{api::ApiKey, errors::ErrorCode, message::VersionRange};

use crate::output::Table;

pub(super) fn apis(out: &mut impl Write) -> Result<()> {
    let mut table = Table::new(&["KEY", "API", "CLIENT", "BROKER"]);
    for key in ApiKey::ALL {
        let client = range(key.client_versions());
        let broker = range(key.broker_versions());
        table.row([key.id().to_string(), key.name().to_owned(), client, broker]);
    }
    Ok(out.write_all(table.write().as_bytes())?)
}

fn range(versions: Option<VersionRange>) -> String {
    match versions {
        None => "-".to_owned(),
        Some(VersionRange { min, max }) if min == max => min.to_string(),
        Some(VersionRange { min, max }) => format!("{min}-{max}"),
    }
}

pub(super) fn errors(out: &mut impl Write) -> Result<()> {
    let mut table = Table::new(&["CODE", "NAME", "RETRIABLE"]);
    for error in ErrorCode::ALL {
        let retriable = if error.is_retriable() { "yes" } else { "no" };
        table.row([error.code().to_string(), error.name().to_owned(), retriable.to_owned()]);
    }
    Ok(out.write_all(table.write().as_bytes())?)
}

pub(super) fn error(out: &mut impl Write, text: &str) -> Result<()> {
    let found = match text.parse() {
        Ok(code) => ErrorCode::from_code(code),
        Err(_) => ErrorCode::ALL
            .into_iter()
            .find(|error| error.name().eq_ignore_ascii_case(text)),
    };
    let error =
        found.with_context(|| format!("unknown error {text:?}; `milena protocol errors` lists codes and names"))?;
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

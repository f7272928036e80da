//! The database of `milena sql` and `milena outbox`.

use std::time::Duration;

use anyhow::{Result, ensure};
use milena_client::config::parse_time;
use milena_security::{Secret, reference};
use milena_sql::{ConnectError, Database, Dialect};
use tokio::time::{Instant, sleep};

use crate::{connection::WAIT, log, output::OutputArguments};

/// The environment variable with the URL of the database.
const VARIABLE: &str = "MILENA_DATABASE_URL";
/// The delay between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
#[command(next_help_heading = "Database")]
pub(crate) struct DatabaseArguments {
    /// Database as postgres://user@host/name or sqlite://file [env: MILENA_DATABASE_URL]. The password or the whole URL
    /// may be a reference, such as 'postgres://app:${env:NAME}@db/shop'
    #[arg(short, long, value_name = "URL")]
    database: Option<String>,
    /// Time limit for reaching a server, as in 500ms, 30s or 2m [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    wait: Option<Duration>,
}

/// Options of commands that print a result from a database.
#[derive(clap::Args)]
pub(crate) struct SqlArguments {
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,
}

impl DatabaseArguments {
    /// Connects, and creates a missing file of SQLite.
    pub(crate) async fn create(&self) -> Result<Database> {
        let url = self.url(None)?;
        retry(self.wait(), || Database::connect(url.expose())).await
    }

    /// Connects to a database that exists.
    pub(crate) async fn connect(&self) -> Result<Database> {
        self.connect_or(None).await
    }

    /// Connects to the database of the arguments, of `configured` in a file, or of the environment.
    pub(crate) async fn connect_or(&self, configured: Option<&str>) -> Result<Database> {
        let url = self.url(configured)?;
        retry(self.wait(), || Database::connect_existing(url.expose())).await
    }

    /// Kind of the database, if one is given.
    pub(crate) fn dialect(&self) -> Result<Option<Dialect>> {
        if self.database.is_none() && variable().is_none() {
            return Ok(None);
        }
        let url = self.url(None)?;
        Ok(Some(match url.expose().starts_with("sqlite:") {
            true => Dialect::Sqlite,
            false => Dialect::Postgres,
        }))
    }

    /// Time limit for reaching a server.
    pub(crate) fn wait(&self) -> Duration {
        self.wait.unwrap_or(WAIT)
    }

    fn url(&self, configured: Option<&str>) -> Result<Secret> {
        if let Some(url) = &self.database {
            ensure!(
                !has_clear_password(url),
                "--database has a password that every user of this machine can see (ps); set the environment variable \
                 {VARIABLE}, or refer to the password: --database 'postgres://user:${{env:NAME}}@host/name'"
            );
            return resolve(url);
        }
        match configured.map(str::to_owned).or_else(variable) {
            Some(url) => resolve(&url),
            None => anyhow::bail!("no database given; use --database URL or the environment variable {VARIABLE}"),
        }
    }
}

fn variable() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|url| !url.trim().is_empty())
}

/// Connects, again and again within the time if the server does not accept connections.
async fn retry<F: Future<Output = Result<Database, ConnectError>>>(
    wait: Duration,
    connect: impl Fn() -> F,
) -> Result<Database> {
    let deadline = Instant::now().checked_add(wait);
    let mut reported = String::new();
    loop {
        let error = match connect().await {
            Ok(database) => return Ok(database),
            Err(error) => error,
        };
        let is_down = matches!(&error, ConnectError::Connect { error, .. } if error.as_database_error()
            .map_or_else(|| matches!(error, milena_sql::sqlx::Error::Io(_)), is_starting));
        let is_over = deadline.is_some_and(|deadline| Instant::now() + RETRY >= deadline);
        if !is_down || is_over {
            return Err(error.into());
        }
        let text = error.to_string();
        if text != reported {
            log::notice(format_args!("{text}; still trying, Ctrl-C to stop"));
            reported = text;
        }
        sleep(RETRY).await;
    }
}

/// Whether PostgreSQL refuses only for the moment: it starts or recovers (57P03), or has no free connection (53300).
fn is_starting(error: &(dyn milena_sql::sqlx::error::DatabaseError + 'static)) -> bool {
    matches!(error.code().as_deref(), Some("57P03" | "53300"))
}

/// Whether a URL has a password that is not a reference.
fn has_clear_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else {
        return false;
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
    let in_user = user.split_once(':').map_or("", |(_, password)| password);
    let in_query = query.split('&').filter_map(|part| part.strip_prefix("password="));
    let mut passwords = in_query.chain([in_user]);
    passwords.any(|password| !password.is_empty() && !reference::has_reference(password))
}

/// Replaces the references. What stands for a user or a password is encoded as URLs need it.
fn resolve(url: &str) -> Result<Secret> {
    let url = url.trim();
    let is_whole = url.starts_with("${") && url.ends_with('}') && url.matches("${").count() == 1;
    if is_whole || !reference::has_reference(url) {
        return Ok(reference::resolve(url)?);
    }
    let user_end = url.rfind('@').unwrap_or_default();
    let mut resolved = String::new();
    let mut position = 0;
    while let Some(found) = url.get(position..).and_then(|rest| rest.find("${")) {
        let begin = position + found;
        let Some(length) = url.get(begin..).and_then(|rest| rest.find('}')) else {
            break;
        };
        let end = begin + length + 1;
        resolved.push_str(url.get(position..begin).unwrap_or_default());
        let value = reference::resolve(url.get(begin..end).unwrap_or_default())?;
        match begin < user_end {
            true => value
                .expose()
                .bytes()
                .for_each(|byte| push_encoded(&mut resolved, byte)),
            false => resolved.push_str(value.expose()),
        }
        position = end;
    }
    resolved.push_str(url.get(position..).unwrap_or_default());
    Ok(Secret::from(resolved))
}

fn push_encoded(text: &mut String, byte: u8) {
    match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        true => text.push(char::from(byte)),
        false => text.push_str(&format!("%{byte:02X}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_password_is_found() {
        for url in [
            "postgres://app:hunter2@db/shop",
            "postgres://app:a@b@db/shop",
            "postgres://db/shop?sslmode=require&password=hunter2",
        ] {
            assert!(has_clear_password(url), "{url}");
        }
        for url in [
            "postgres://app@db/shop",
            "postgres://app:${env:SECRET}@db:5432/shop?sslmode=require",
            "postgres://db:5432/shop",
            "sqlite:///var/lib/app.db",
            "${env:URL}",
        ] {
            assert!(!has_clear_password(url), "{url}");
        }
    }

    #[test]
    fn a_password_is_encoded_and_a_whole_url_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secrets.properties");
        std::fs::write(&file, "password=a@b/c:d\nurl=postgres://x:y@db/shop\nname=shop\n").unwrap();
        let file = file.display();
        let resolved = |url: String| resolve(&url).unwrap().expose().to_owned();
        assert_eq!(
            resolved(format!(
                "postgres://app:${{file:{file}:password}}@db/${{file:{file}:name}}"
            )),
            "postgres://app:a%40b%2Fc%3Ad@db/shop"
        );
        assert_eq!(resolved(format!("${{file:{file}:url}}")), "postgres://x:y@db/shop");
        assert_eq!(resolved("sqlite://app.db".to_owned()), "sqlite://app.db");
    }
}

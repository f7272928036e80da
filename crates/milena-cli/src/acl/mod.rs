//! `milena acl`: access control lists.

mod codes;
mod create;
mod delete;
mod filter;
mod list;
mod operations;
mod resource;
mod rule;
mod table;

use anyhow::Result;
use clap::Subcommand;

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List ACLs
    #[command(visible_alias = "ls", after_help = list::HELP)]
    List(list::Arguments),
    /// Create ACLs: allow or deny principals operations on resources
    #[command(alias = "add", after_help = create::HELP)]
    Create(create::Arguments),
    /// Delete the ACLs that match; a dry run without --execute
    #[command(alias = "remove", after_help = delete::HELP)]
    Delete(delete::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Create(arguments) => connection::run(create::create(arguments)),
        Command::Delete(arguments) => connection::run(delete::delete(arguments)),
    }
}

/// A principal with its type. A plain name is that of a user, the only type that Kafka's authorizer knows.
fn principal(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        _ if text.trim().is_empty() => Err("expected a principal, as in User:alice".to_owned()),
        None => Ok(format!("User:{text}")),
        Some((kind, name)) if kind.is_empty() || name.is_empty() => {
            Err("expected a type and a name, as in User:alice".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_a_user() {
        assert_eq!(principal("alice"), Ok("User:alice".to_owned()));
        assert_eq!(principal("User:*"), Ok("User:*".to_owned()));
        assert_eq!(principal("User:CN=a,O=b"), Ok("User:CN=a,O=b".to_owned()));
        for wrong in ["", " ", "User:", ":alice"] {
            assert!(principal(wrong).is_err(), "{wrong:?}");
        }
    }
}

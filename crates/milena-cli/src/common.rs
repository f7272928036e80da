//! The options that every administrative command has.

use crate::{connection::ConnectionArguments, output::OutputArguments};

/// It must be the last part of a command's arguments: the heading of the connection also holds what follows it.
#[derive(clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
}

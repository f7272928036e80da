//! Options of every admin command.

use crate::{connection::ConnectionArguments, output::OutputArguments};

/// Output and connection options. They must come last in a command's arguments: the heading of the connection options
/// also covers all options after them.
#[derive(clap::Args)]
pub(crate) struct AdminArguments {
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
}

//! `cargo xtask kafka`: a real Apache Kafka on loopback, and Kafka's own tools, to test against.

mod broker;
mod certificates;
mod cluster;
mod config;
mod libraries;
mod secured;
mod tools;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;

use cluster::Cluster;
use config::Settings;
pub(crate) use libraries::{Jars, classpath};

/// Run a real Apache Kafka 4.3.1 (KRaft) on loopback, and Kafka's own tools. Needs Java 17 and Maven.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the brokers 1, 2, … on ports from --port on; returns when they serve and prints the bootstrap list.
    ///
    /// The environment variable KAFKA_HEAP sets the heap of each broker (default 1g).
    Up {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        settings: Settings,
    },
    /// Stop the brokers and keep their data.
    Down {
        #[command(flatten)]
        place: Place,
    },
    /// Kill the brokers and delete their data.
    Wipe {
        #[command(flatten)]
        place: Place,
    },
    /// Kill one broker like a crash (`kill -9`); its data remains.
    Kill {
        number: u16,
        #[command(flatten)]
        place: Place,
    },
    /// Start one broker again on its data; returns when it serves.
    Start {
        number: u16,
        #[command(flatten)]
        place: Place,
    },
    /// Run one of Kafka's tools; the arguments after its name are passed to it unchanged.
    // `--help` belongs to the tool too.
    #[command(disable_help_flag = true)]
    Tool {
        /// The jars to run it with; this comes before its name.
        #[arg(long, value_enum, default_value_t = Jars::Kafka)]
        jars: Jars,
        /// Short name of a tool (an unknown name prints the list), the full name of a class, or a file of Java code.
        name: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Make certificates with OpenSSL and Java's keytool: an authority, a server on loopback, and users.
    Certificates { dir: PathBuf },
    /// Print the class path of Kafka's jars, or of others.
    Classpath {
        #[arg(long, value_enum, default_value_t = Jars::Kafka)]
        jars: Jars,
    },
}

#[derive(clap::Args)]
struct Place {
    /// Directory that holds everything of this cluster: configuration, output, process ids; data in broker-N/data.
    #[arg(long, default_value_os_t = std::env::temp_dir().join("milena-kafka"))]
    dir: PathBuf,
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Up { place, settings } => println!("{}", place.cluster()?.up(&settings)?),
        Command::Down { place } => place.cluster()?.down()?,
        Command::Wipe { place } => place.cluster()?.wipe()?,
        Command::Kill { number, place } => {
            if !place.cluster()?.existing_broker(number)?.kill()? {
                bail!("broker {number} does not run");
            }
        }
        Command::Start { number, place } => {
            let broker = place.cluster()?.existing_broker(number)?;
            broker.start()?.wait_until_serving()?;
        }
        Command::Tool { jars, name, args } => tools::run(jars, &name, &args)?,
        Command::Certificates { dir } => certificates::make(&std::path::absolute(dir)?)?,
        Command::Classpath { jars } => println!("{}", classpath(jars)?),
    }
    Ok(())
}

impl Place {
    fn cluster(&self) -> Result<Cluster> {
        // The brokers outlive this process and its working directory, so they get absolute paths.
        Ok(Cluster::new(std::path::absolute(&self.dir)?))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Args, Command};

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_tool_gets_its_arguments_as_they_are() {
        let words = ["xtask", "tool", "topics", "--help", "-x", "--dir", "d"];
        let Command::Tool { name, args, .. } = CommandLine::parse_from(words).args.command else {
            panic!("`tool` was parsed as another command");
        };
        assert_eq!(name, "topics");
        assert_eq!(args, ["--help", "-x", "--dir", "d"]);
    }
}

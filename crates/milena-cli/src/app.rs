//! `milena run`: an application whose handlers are programs or services.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use milena_app::{AppFile, outside};

use crate::signals::Signals;

pub(crate) const HELP: &str = "A handler is a program (command) that gets a line of JSON for each record and answers with one,
or a service (http) that gets a POST for each. {\"id\":1} means done; {\"id\":1,\"error\":\"…\",\"intent\":\"poison\"} sends the
record to the dead letters; skip, duplicate, retry_after_ms and emit are understood too.

  group = \"billing\"
  [kafka]
  \"bootstrap.servers\" = \"127.0.0.1:9092\"
  [[handlers]]
  topic = \"orders\"
  command = [\"python3\", \"charge.py\"]
  retry = { attempts = 5, topics = [\"1m\", \"5m\", \"15m\"] }";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file that declares the application
    file: PathBuf,
    /// Look whether the file is right, and start nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    let name = arguments.file.display();
    let file = AppFile::read(&arguments.file).with_context(|| format!("in {name}"))?;
    let app = outside::app(&file).with_context(|| format!("in {name}"))?;
    app.check().with_context(|| format!("in {name}"))?;
    if arguments.check {
        println!("{name} is right");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let running = app.start().await.with_context(|| format!("in {name}"))?;
        // One line that scripts can wait for.
        println!("RUNNING");
        tokio::select! {
            () = signals.received() => {}
            () = running.ended() => {}
        }
        Ok(running.stop().await?)
    })
}

//! `milena completion`: completion scripts for shells.

use std::io::stdout;

use anyhow::Result;
use clap_complete::Shell;

pub(crate) const HELP: &str = "\
Examples:
  source <(milena completion bash)                in ~/.bashrc
  milena completion zsh > ~/.zfunc/_milena        a directory of $fpath
  milena completion fish > ~/.config/fish/completions/milena.fish";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut script = vec![];
    clap_complete::generate(arguments.shell, &mut crate::full_command_line(), "milena", &mut script);
    Ok(std::io::Write::write_all(&mut stdout().lock(), &script)?)
}

//! `milena doctor`: checks a data directory that no broker uses.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use milena_broker::doctor::{Finding, Level, Report, examine};

use crate::output::{OutputArguments, Table, counted};

pub(crate) const HELP: &str = "\
Reads every record batch and writes nothing. Stop the broker first.
Exit code: 0 without damage, 1 with damage.

Examples:
  milena doctor --data-dir milena-data
  milena doctor --data-dir milena-data -o json";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data directory of a broker
    #[arg(long, value_name = "DIR", default_value = "milena-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let report = examine(&arguments.data_dir)?;
    arguments.output.print(&report, || text(&report))?;
    let damage = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Level::Damage);
    ensure!(
        report.is_healthy(),
        "found damage in {}: {}",
        report.data_dir.display(),
        counted(damage.count(), "place")
    );
    Ok(())
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{}: {}, {}, {}, {}, {}; last shutdown: {}\n",
        report.data_dir.display(),
        counted(report.topics, "topic"),
        counted(report.partitions, "partition"),
        counted(report.segments, "segment"),
        counted(report.bytes, "byte"),
        counted(report.records, "record"),
        if report.clean_stop { "clean" } else { "unclean" }
    );
    if report.findings.is_empty() {
        text.push_str("no damage found\n");
        return text;
    }
    let mut table = Table::new(&["SEVERITY", "FILE", "BYTE", "OFFSETS", "PROBLEM"]);
    for finding in &report.findings {
        table.row([
            severity(finding.severity).to_owned(),
            finding.file.clone(),
            finding
                .position
                .map_or_else(String::new, |position| position.to_string()),
            offsets(finding),
            finding.problem.clone(),
        ]);
    }
    text.push_str(&table.write());
    text
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::Note => "note",
        Level::Mendable => "mendable",
        Level::Damage => "damage",
    }
}

fn offsets(finding: &Finding) -> String {
    match (finding.from_offset, finding.to_offset) {
        (Some(from), Some(to)) => format!("{from}-{}", to - 1),
        _ => String::new(),
    }
}

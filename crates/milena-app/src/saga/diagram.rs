//! Sagas as diagrams.

use std::fmt::Write;

use milena_machines::saga::{Definition, Step, StepIndex, StepKind};

use super::Saga;

/// A flowchart: solid arrows go forward, dotted ones compensate.
pub(super) fn mermaid(definition: &Definition) -> String {
    let mut lines = vec!["flowchart LR".to_owned()];
    let draft = definition.draft();
    lines.push(format!("  begin([{}])", quoted(&draft.starts)));
    for (place, step) in draft.steps.iter().enumerate() {
        let text = format!("{}<br/>{}, {}", step.name, step.participant, step.kind.name());
        let shape = match step.kind {
            StepKind::Pivot => format!("{{{{{}}}}}", quoted(&text)),
            StepKind::Compensatable | StepKind::Retriable => format!("[{}]", quoted(&text)),
        };
        lines.push(format!("  s{place}{shape}"));
    }
    lines.push(format!(
        "  completed([{}])",
        quoted(draft.completed.as_deref().unwrap_or("completed"))
    ));
    lines.push(format!(
        "  cancelled([{}])",
        quoted(draft.cancelled.as_deref().unwrap_or("compensated"))
    ));
    for index in definition.indices() {
        let Some(step) = definition.step(index) else { continue };
        forward_arrows(definition, index, step, &mut lines);
        backward_arrows(definition, index, step, &mut lines);
    }
    lines.join("\n") + "\n"
}

fn forward_arrows(definition: &Definition, index: StepIndex, step: &Step, lines: &mut Vec<String>) {
    let place = index.0;
    if step.on.contains(&definition.draft().starts) {
        lines.push(format!("  begin --> s{place}"));
    }
    for before in definition.before(index) {
        let event = definition.step(*before).map_or("", |before| before.done.as_str());
        lines.push(format!("  s{} -->|{}| s{place}", before.0, quoted(event)));
    }
    if definition.after(index).is_empty() {
        lines.push(format!("  s{place} -->|{}| completed", quoted(&step.done)));
    }
}

fn backward_arrows(definition: &Definition, index: StepIndex, step: &Step, lines: &mut Vec<String>) {
    let events: Vec<&str> = step
        .failed
        .iter()
        .chain(&step.compensated)
        .map(String::as_str)
        .collect();
    if events.is_empty() {
        return;
    }
    let label = quoted(&events.join(", "));
    let place = index.0;
    for before in definition.before(index) {
        lines.push(format!("  s{place} -.->|{label}| s{}", before.0));
    }
    if definition.before(index).is_empty() {
        lines.push(format!("  s{place} -.->|{label}| cancelled"));
    }
}

/// Mermaid has no escape for quotes, but entities.
fn quoted(text: &str) -> String {
    let text = text.replace('#', "#35;").replace('"', "#quot;");
    format!(
        "\"{}\"",
        text.replace("<br/>", "\u{0}")
            .replace('<', "#lt;")
            .replace('>', "#gt;")
            .replace('\u{0}', "<br/>")
    )
}

/// A description for a terminal.
pub(super) fn text(saga: &Saga) -> String {
    let definition = saga.definition();
    let draft = definition.draft();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "saga {}, owned by {}; its id is {}",
        draft.name,
        draft.owner,
        saga.id()
    );
    let _ = writeln!(text, "\n{}", draft.starts);
    for step in &draft.steps {
        let _ = writeln!(text, "  {} by {} ({})", step.name, step.participant, step.kind.name());
        let _ = writeln!(text, "    on          {}", step.on.join(" and "));
        let _ = writeln!(text, "    done        {}", step.done);
        for (name, event) in [("failed     ", &step.failed), ("compensated", &step.compensated)] {
            if let Some(event) = event {
                let _ = writeln!(text, "    {name} {event}");
            }
        }
        let _ = writeln!(text, "    timeout     {}", limits(step));
    }
    if let Some(completed) = &draft.completed {
        let _ = writeln!(text, "{completed}, when all steps are done");
    }
    if let Some(cancelled) = &draft.cancelled {
        let _ = writeln!(text, "{cancelled}, when all steps are compensated");
    }
    text.push('\n');
    for participant in &draft.participants {
        let read = definition.topics_read_by(&participant.name).join(", ");
        let _ = writeln!(
            text,
            "{} writes {} and reads {read}",
            participant.name, participant.topic
        );
    }
    text
}

fn limits(step: &Step) -> String {
    let timeout = step.timeout_ms.map_or_else(|| "none".to_owned(), duration);
    let redelivered = match step.retries {
        0 => String::new(),
        1 => ", then redelivered once".to_owned(),
        times => format!(", then redelivered {times} times"),
    };
    format!("{timeout}{redelivered}")
}

fn duration(millis: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let fitting = units.iter().find(|(unit, _)| millis >= *unit && millis % unit == 0);
    fitting.map_or_else(
        || format!("{millis}ms"),
        |(unit, name)| format!("{}{name}", millis / unit),
    )
}

//! The state of all databases and topics, read by `psql` or `sqlite3`, and `kcat`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{databases::Databases, programs::read_as, service::SERVICES};

pub const PARTITIONS: usize = 3;

/// Figures of databases and topics that agree.
#[derive(Debug)]
pub struct Outcome {
    pub completed: usize,
    pub cancelled: usize,
    /// Steps that were performed and undone.
    pub undone: usize,
    /// Sagas that a timer has cancelled.
    pub timed_out: usize,
    /// Steps that were cancelled before their action.
    pub tombstones: usize,
}

/// Kinds of effects by order, as they happened.
type Effects = BTreeMap<String, Vec<String>>;

fn effects(databases: &Databases, service: &str) -> Effects {
    let mut effects = Effects::new();
    for row in databases
        .query(service, "SELECT id, kind FROM effects ORDER BY n")
        .lines()
    {
        let (id, kind) = row.split_once('|').unwrap();
        effects.entry(id.to_owned()).or_default().push(kind.to_owned());
    }
    effects
}

fn number(databases: &Databases, service: &str, query: &str) -> usize {
    databases.query(service, query).trim().parse().unwrap()
}

pub fn check(databases: &Databases, address: &str) -> Result<Outcome, String> {
    let placed = databases.query("orders", "SELECT id FROM orders");
    let placed: BTreeSet<&str> = placed.lines().collect();
    let ends = effects(databases, "orders");
    if let Some(other) = ends.keys().find(|id| !placed.contains(id.as_str())) {
        return Err(format!("{other} has ended, and was never placed"));
    }
    let parts: Vec<(&str, Effects)> = SERVICES[1..]
        .iter()
        .map(|name| (*name, effects(databases, name)))
        .collect();
    let announced = announced(address)?;
    let mut outcome = Outcome {
        completed: 0,
        cancelled: 0,
        undone: 0,
        timed_out: number(
            databases,
            "orders",
            "SELECT count(*) FROM milena_sagas WHERE reason LIKE '%timed out'",
        ),
        tombstones: 0,
    };
    for id in &placed {
        let end = match ends.get(*id).map(Vec::as_slice) {
            Some([end]) => end.as_str(),
            other => return Err(format!("{id} has ended {other:?}")),
        };
        if announced.get(*id).map(String::as_str) != Some(end) {
            return Err(format!("{id} is {end}, and was announced as {:?}", announced.get(*id)));
        }
        match end {
            "completed" => outcome.completed += 1,
            _ => outcome.cancelled += 1,
        }
        for (service, effects) in &parts {
            let done: Vec<&str> = effects.get(*id).into_iter().flatten().map(String::as_str).collect();
            match (end, done.as_slice()) {
                ("completed", ["do"]) | ("cancelled", []) => {}
                ("cancelled", ["do", "undo"]) if *service != "shipping" => outcome.undone += 1,
                (end, effects) => return Err(format!("{id} is {end}, and {service} has the effects {effects:?}")),
            }
        }
    }
    let free = number(databases, "inventory", "SELECT free FROM stock");
    if free + outcome.completed != 1_000_000 {
        return Err(format!(
            "{free} pieces are free after {} completed orders",
            outcome.completed
        ));
    }
    for service in SERVICES {
        let query = "SELECT count(*) FROM milena_sagas WHERE status = 'cancelled'";
        outcome.tombstones += number(databases, service, query);
    }
    Ok(outcome)
}

/// How orders ended, by the events in the topic. A relay may repeat an event; two different ends are an error.
fn announced(address: &str) -> Result<BTreeMap<String, String>, String> {
    let mut ends = BTreeMap::new();
    for partition in 0..PARTITIONS {
        for line in read_as(address, "orders.events", partition, "read_committed", "%k %h\n") {
            let (id, headers) = line.split_once(' ').unwrap();
            let end = match headers {
                headers if headers.contains("eventType=OrderCompleted") => "completed",
                headers if headers.contains("eventType=OrderCancelled") => "cancelled",
                _ => continue,
            };
            let earlier = ends.insert(id.to_owned(), end.to_owned());
            if earlier.is_some_and(|earlier| earlier != end) {
                return Err(format!("{id} was announced as completed and as cancelled"));
            }
        }
    }
    Ok(ends)
}

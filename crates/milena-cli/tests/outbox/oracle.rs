//! Comparison of table and topic, by `psql` and `kcat`.

use std::collections::{BTreeMap, BTreeSet};

use milena_test::PostgresServer;

use crate::programs::read_as;

pub const TOPIC: &str = "orders.events";
pub const PARTITIONS: usize = 4;

/// Figures of a table and a topic that agree.
#[derive(Debug)]
pub struct Comparison {
    pub orders: usize,
    pub records: usize,
}

/// Ids of the orders of each aggregate, in the order of their versions.
type Orders = BTreeMap<String, Vec<String>>;

pub fn compare(server: &PostgresServer, url: &str, address: &str) -> Result<Comparison, String> {
    let orders = committed_orders(server, url)?;
    let mut records = 0;
    let mut announced: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for partition in 0..PARTITIONS {
        for line in read_as(address, TOPIC, partition, "read_committed", "%k %s %h\n") {
            let (key, id) = parse(&line)?;
            let (home, ids) = announced.entry(key.clone()).or_insert_with(|| (partition, vec![]));
            if *home != partition {
                return Err(format!("events of {key} are in the partitions {home} and {partition}"));
            }
            ids.push(id);
            records += 1;
        }
    }
    for (aggregate, (_, ids)) in &announced {
        let expected = orders.get(aggregate);
        check(expected.map_or(&[], Vec::as_slice), ids).map_err(|problem| format!("{aggregate}: {problem}"))?;
    }
    if let Some(silent) = orders.keys().find(|aggregate| !announced.contains_key(*aggregate)) {
        return Err(format!("no order of {silent} was announced"));
    }
    Ok(Comparison {
        orders: orders.values().map(Vec::len).sum(),
        records,
    })
}

/// Key and id of a record whose value is its key.
fn parse(line: &str) -> Result<(String, String), String> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        [key, value, headers] if key == value => {
            let id = headers
                .strip_prefix("id=")
                .and_then(|rest| rest.strip_suffix(",eventType=OrderPlaced"));
            let id = id.ok_or_else(|| format!("unexpected headers: {headers}"))?;
            Ok((key.to_owned(), id.to_owned()))
        }
        _ => Err(format!("unexpected record: {line}")),
    }
}

fn committed_orders(server: &PostgresServer, url: &str) -> Result<Orders, String> {
    let mut orders = Orders::new();
    let rows = server.psql(
        url,
        "SELECT aggregate, version, id FROM orders ORDER BY aggregate, version",
    );
    for row in rows.lines() {
        let columns: Vec<&str> = row.split('|').collect();
        let [aggregate, version, id] = columns[..] else {
            return Err(format!("unexpected row: {row}"));
        };
        let ids = orders.entry(aggregate.to_owned()).or_default();
        ids.push(id.to_owned());
        if version.parse() != Ok(ids.len()) {
            return Err(format!(
                "version {version} of {aggregate} is not the next one; the test is wrong"
            ));
        }
    }
    let others = "SELECT count(*) FROM milena_outbox FULL JOIN orders ON milena_outbox.id::text = orders.id
        WHERE milena_outbox.id IS NULL OR orders.id IS NULL OR published_at IS NULL";
    match server.psql(url, others).as_str() {
        "0" => Ok(orders),
        count => Err(format!(
            "{count} rows of the outbox are not published, or not those of the orders"
        )),
    }
}

/// Every order is announced, and for the first time after all earlier ones. A relay that was killed may have announced
/// orders again, from one of them on and in order.
fn check(expected: &[String], announced: &[String]) -> Result<(), String> {
    let versions: BTreeMap<&str, usize> = expected.iter().map(String::as_str).zip(0..).collect();
    let mut seen = BTreeSet::new();
    let mut last = None;
    for id in announced {
        let version = *versions
            .get(id.as_str())
            .ok_or_else(|| format!("{id} was announced, not committed"))?;
        let next = seen.len();
        let continues = last.is_none_or(|last| version == last + 1);
        if version > next || (version < next && !continues && last.is_some_and(|last| version > last)) {
            return Err(format!(
                "version {} was announced after {last:?}, {next} were before",
                version + 1
            ));
        }
        seen.insert(version);
        last = Some(version);
    }
    match seen.len() == expected.len() {
        true => Ok(()),
        false => Err(format!("{} of {} orders were announced", seen.len(), expected.len())),
    }
}

/// The checks find what they are made for.
pub fn check_the_checks() {
    let ids = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let expected = ids("a b c d");
    for good in [
        "a b c d",
        "a a b c d",
        "a b a b c d",
        "a b c b c d d",
        "a b c d a b c d",
    ] {
        check(&expected, &ids(good)).unwrap();
    }
    for bad in ["a b c", "a c b d", "b a c d", "a b c d x", "a b c a c d", "b c d"] {
        assert!(check(&expected, &ids(bad)).is_err(), "{bad}");
    }
}

//! The response of each API to a client with few rights: a table of API, rights and error codes.
//!
//! The same requests are sent to our broker and, by the outside tests, to Apache Kafka; both must respond with the codes
//! of `cells.txt`.

mod admin_probes;
mod bed;
mod data_probes;
mod group_probes;
mod probe;

pub use bed::Bed;

/// A line of `cells.txt`: a probe, the rights of its client, and the response.
struct Cell {
    probe: &'static str,
    rights: Vec<&'static str>,
    expected: &'static str,
}

fn cells() -> Vec<Cell> {
    let lines = include_str!("cells.txt").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cells = lines.map(|line| {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [probe, rights, expected] = parts[..] else {
            panic!("not a cell: {line}");
        };
        let rights = rights.split(',').map(str::trim).filter(|right| !right.is_empty());
        Cell {
            probe,
            rights: rights.collect(),
            expected,
        }
    });
    cells.collect()
}

/// Runs all probes and compares their responses with the table.
pub fn check_all(bed: &mut Bed) {
    let mut different = vec![];
    let mut count = 0;
    for cell in cells() {
        if !bed.serves(cell.probe) {
            continue;
        }
        bed.grant(&cell.rights);
        let seen = probe::run(bed, cell.probe);
        count += 1;
        if seen != cell.expected {
            let rights = cell.rights.join(", ");
            different.push(format!("{} | {rights} | {seen}, not {}", cell.probe, cell.expected));
        }
    }
    assert!(count > 100, "only {count} cells");
    assert!(
        different.is_empty(),
        "{} of {count} cells:\n{}",
        different.len(),
        different.join("\n")
    );
}

/// The APIs that have a cell without any right. Every API that needs a right must be among them.
pub fn apis_with_a_denied_cell() -> Vec<&'static str> {
    let denied = cells().into_iter().filter(|cell| cell.rights.is_empty());
    denied.filter_map(|cell| cell.probe.split_whitespace().next()).collect()
}

//! A table of text, with columns as wide as their longest cell.

pub(super) fn print(head: &[&str], rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
            widest.max(head[column].chars().count())
        })
        .collect();
    print_row(head.iter().copied(), &widths);
    for row in rows {
        print_row(row.iter().map(String::as_str), &widths);
    }
}

/// The first cell is aligned to the left, as a name; the others to the right, as numbers.
fn print_row<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) {
    let mut line = String::new();
    for (column, (cell, width)) in cells.zip(widths).enumerate() {
        if column == 0 {
            line.push_str(&format!("{cell:<width$}"));
        } else {
            line.push_str(&format!(" {cell:>width$}"));
        }
    }
    println!("{}", line.trim_end());
}

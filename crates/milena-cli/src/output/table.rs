//! Text tables.

/// Columns that are as wide as their widest cell, below a header.
pub(crate) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: vec![],
        }
    }

    /// Adds a row with a cell per column. An empty cell is printed as a dash.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "{:?}", self.columns);
        self.rows.push(cells);
    }

    pub(crate) fn write(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|name| (*name).to_owned()).collect();
        let shown = |cell: &String| match cell.is_empty() {
            true => "-".to_owned(),
            false => cell.clone(),
        };
        let rows = self.rows.iter().map(|row| row.iter().map(shown).collect());
        let lines: Vec<Vec<String>> = std::iter::once(names).chain(rows).collect();
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &Vec<String>| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line: Vec<String> = padded.collect();
            format!("{}\n", line.join("  ").trim_end())
        };
        lines.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["TOPIC", "N"]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["wide-name".to_owned(), String::new()]);
        assert_eq!(table.write(), "TOPIC      N\na          1\nwide-name  -\n");
    }
}

//! Plain tables: a line of heads, rows below, columns two spaces apart. No frames, no colours, so that `awk` and `cut`
//! read them too. Columns that hold only numbers are set to the right.

use std::fmt;

/// A table that is being filled.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads.
    pub fn new(heads: &[&str]) -> Table {
        Table { rows: vec![heads.iter().map(|head| head.to_string()).collect()] }
    }

    /// Adds a row, which has as many cells as there are heads.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.rows[0].len(), "a row has a cell for each head");
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let widths: Vec<usize> =
            (0..columns).map(|c| self.rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect();
        let is_number =
            |cell: &String| cell.is_empty() || cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
        let right: Vec<bool> =
            (0..columns).map(|c| self.rows.len() > 1 && self.rows[1..].iter().all(|row| is_number(&row[c]))).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let (width, gap) = (widths[c], if c == 0 { "" } else { "  " });
                line += &if right[c] { format!("{gap}{cell:>width$}") } else { format!("{gap}{cell:<width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_text_left() {
        let mut table = Table::new(&["name", "count"]);
        table.row(["a".into(), "7".into()]);
        table.row(["longer".into(), "1000".into()]);
        assert_eq!(table.to_string(), "name    count\na           7\nlonger   1000\n");
    }
}

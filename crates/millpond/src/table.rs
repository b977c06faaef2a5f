//! Plain tables: a line of heads, rows below, columns two spaces apart. No frames, no colours, so that `awk` and `cut`
//! read them too. Columns that hold only numbers are set to the right.

use std::fmt;

/// Characters of the widest cell that a column is made wide for. One that is longer, as the name of a topic may be, moves the rest
/// of its own row and leaves the others as they are.
const WIDE: usize = 64;

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
        let width = |c: usize| {
            let cells = self.rows.iter().map(|row| row[c].chars().count());
            cells.filter(|count| *count <= WIDE).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
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

    #[test]
    fn a_very_long_cell_moves_no_row_but_its_own() {
        let (mut table, long) = (Table::new(&["name", "what"]), "n".repeat(512));
        table.row(["a".into(), "b".into()]);
        table.row([long.clone(), "b".into()]);
        assert_eq!(table.to_string(), format!("name  what\na     b\n{long}  b\n"));
    }
}

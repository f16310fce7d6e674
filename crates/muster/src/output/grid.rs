//! Columns without lines: every column as wide as its widest cell, three blanks between.

/// Rows under headings.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    headings: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
}

/// How many blanks stand between two columns.
const GAP: usize = 3;

impl Grid {
    /// Rows under headings, which are shown in capitals.
    pub fn new(headings: &[&str]) -> Self {
        let headings = headings.iter().map(|heading| heading.to_uppercase()).collect();
        Self { headings: Some(headings), rows: Vec::new() }
    }

    /// The same without the row of headings, if `shown` is false.
    #[must_use]
    pub fn headed(mut self, shown: bool) -> Self {
        if !shown {
            self.headings = None;
        }
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Orders the rows by their first cell, whatever its case.
    pub fn sort(&mut self) {
        self.rows.sort_by_key(|row| row.first().map(|cell| cell.to_lowercase()));
    }

    /// The lines, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let all: Vec<&Vec<String>> = self.headings.iter().chain(&self.rows).collect();
        let count = all.iter().map(|row| row.len()).max().unwrap_or(0);
        let wide = |index: usize| {
            let cells = all.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(wide).collect();
        let line = |row: &Vec<String>| {
            let padded = row.iter().zip(&widths).map(|(cell, width)| {
                let width = width + GAP;
                format!("{cell:<width$}")
            });
            padded.collect::<String>().trim_end().to_owned()
        };
        all.into_iter().map(line).collect()
    }

    /// The lines as one block.
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::Grid;

    #[test]
    fn columns_stand_below_each_other() {
        let mut grid = Grid::new(&["name", "state"]);
        grid.row(["zeta".to_owned(), "up".to_owned()]);
        grid.row(["Ünter".to_owned(), String::new()]);
        grid.sort();
        expect![[r"
            NAME    STATE
            zeta    up
            Ünter"]]
        .assert_eq(&grid.text());
        assert_eq!(grid.headed(false).lines().len(), 2);
    }
}

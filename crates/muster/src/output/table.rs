//! Tables: aligned columns without borders.

use comfy_table::{ContentArrangement, Table as Layout, presets};

use super::{
    Printer, Tone,
    format::{OutputFormat, OutputStyle},
};

/// Rows under headings. A cell may have several lines.
#[derive(Debug, Clone)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Spaces before and after a cell.
    padding: (u16, u16),
    /// The width that cells are wrapped to.
    width: Option<u16>,
}

/// A column of the table of a reply type.
#[derive(Debug)]
pub struct Column<T> {
    heading: &'static str,
    cell: fn(&T) -> String,
    shown: Shown,
    /// The maximum length of a cell in characters, unless the table is wide.
    limit: usize,
}

/// The tables in which a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always,
    Wide,
}

impl<T> Column<T> {
    /// A column of every table.
    pub const fn new(heading: &'static str, cell: fn(&T) -> String) -> Self {
        Self { heading, cell, shown: Shown::Always, limit: usize::MAX }
    }

    /// A column of wide tables only, which is left out if it has no values.
    pub const fn wide(heading: &'static str, cell: fn(&T) -> String) -> Self {
        Self { heading, cell, shown: Shown::Wide, limit: usize::MAX }
    }

    /// A column of every table, with cells of at most `limit` characters unless the table is wide.
    pub const fn cut(heading: &'static str, limit: usize, cell: fn(&T) -> String) -> Self {
        Self { heading, cell, shown: Shown::Always, limit }
    }
}

/// Lays out one row for each item; cells are one line each.
pub fn list<T>(columns: &[Column<T>], items: &[T], style: OutputStyle) -> String {
    let is_wide = style.format == OutputFormat::Wide;
    let has_values = |column: &Column<T>| items.iter().any(|item| !(column.cell)(item).is_empty());
    let columns: Vec<&Column<T>> = columns
        .iter()
        .filter(|column| match column.shown {
            Shown::Always => true,
            Shown::Wide => is_wide && has_values(column),
        })
        .collect();
    let mut table = Table::new(columns.iter().map(|column| column.heading), style);
    for item in items {
        table.row(columns.iter().map(|column| {
            let limit = if is_wide { usize::MAX } else { column.limit };
            let cell = one_line(&(column.cell)(item), limit);
            if cell.is_empty() { "-".to_owned() } else { cell }
        }));
    }
    table.text()
}

/// Lays out rows under headings as given, wrapped to fit the terminal.
pub fn render(printer: &Printer, headings: &[&str], rows: &[Vec<String>]) -> String {
    let headings = headings.iter().map(|heading| printer.paint(Tone::Strong, heading)).collect();
    Table { headings, rows: rows.to_vec(), padding: (1, 1), width: printer.width() }.text()
}

impl Table {
    /// A table with headings in capitals, if the style has headings.
    pub fn new<'a>(headings: impl IntoIterator<Item = &'a str>, style: OutputStyle) -> Self {
        let headings = match style.headings {
            true => headings.into_iter().map(str::to_uppercase).collect(),
            false => Vec::new(),
        };
        Self { headings, rows: Vec::new(), padding: (0, 3), width: None }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table, without trailing spaces.
    pub fn text(&self) -> String {
        let mut layout = Layout::new();
        layout.load_style(presets::NOTHING);
        if let Some(width) = self.width {
            layout.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        if !self.headings.is_empty() {
            layout.set_header(&self.headings);
        }
        for row in &self.rows {
            layout.add_row(row);
        }
        for column in layout.column_iter_mut() {
            column.set_padding(self.padding);
        }
        layout.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

/// Puts text on one line of at most `limit` characters. `...` marks cut text.
pub fn one_line(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= limit {
        return line;
    }
    let start: String = line.chars().take(limit.saturating_sub(3)).collect();
    format!("{start}...")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{Column, OutputFormat, OutputStyle, list, one_line};

    const COLUMNS: &[Column<(&str, &str)>] = &[
        Column::new("name", |item| item.0.to_owned()),
        Column::wide("about", |item| item.1.to_owned()),
        Column::cut("about", 8, |item| item.1.to_owned()),
    ];

    #[test]
    fn wide_tables_have_more_columns_and_whole_cells() {
        let items = [("zeta", "first\nsecond"), ("Ünter", "")];
        let shown = |format, headings| list(COLUMNS, &items, OutputStyle { format, headings });
        expect![[r"
            NAME    ABOUT
            zeta    first...
            Ünter   -"]]
        .assert_eq(&shown(OutputFormat::Table, true));
        expect![[r"
            zeta    first second   first second
            Ünter   -              -"]]
        .assert_eq(&shown(OutputFormat::Wide, false));
    }

    #[test]
    fn short_lines() {
        assert_eq!(one_line("a\n b", 10), "a b");
        assert_eq!(one_line("äbcdefgh", 6), "äbc...");
    }
}

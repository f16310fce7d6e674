//! Aligned columns without lines.

use comfy_table::{ContentArrangement, Table, presets};

use super::{Printer, Tone};

/// Lays out rows under headings; cells may hold several lines.
pub fn render(printer: &Printer, headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headings.iter().map(|heading| printer.paint(Tone::Strong, heading)));
    if let Some(width) = printer.width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        table.add_row(row);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

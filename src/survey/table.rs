/// Columns as wide as their widest cell, two spaces apart; numbers to the right.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = 0..header.len();
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| cell(row, column).chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = columns.clone().map(width).collect();
    let is_number = |column: usize| {
        let cells = || rows.iter().map(|row| cell(row, column)).filter(|cell| !cell.is_empty());
        cells().next().is_some() && cells().all(|cell| cell.chars().all(|c| c.is_ascii_digit() || c == '-'))
    };
    let right: Vec<bool> = columns.clone().map(is_number).collect();
    let line = |cells: Vec<String>| {
        let padded = cells.into_iter().enumerate().map(|(column, cell)| {
            let gap = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if right[column] { gap + &cell } else { cell + &gap }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let first = line(header.iter().map(|name| (*name).to_owned()).collect());
    let rest = rows.iter().map(|row| line(columns.clone().map(|column| cell(row, column)).collect()));
    first + &rest.collect::<String>()
}

/// `1.5 MiB`, three digits at most.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_to_the_left_and_numbers_to_the_right() {
        let rows = [vec!["az1".to_owned(), "5".to_owned()], vec!["a-long-zone".to_owned(), "12345".to_owned()]];
        let due = "ZONE          GETS\naz1              5\na-long-zone  12345\n";
        assert_eq!(table(&["ZONE", "GETS"], &rows), due);
        assert_eq!(table(&["ZONE", "GETS"], &[]), "ZONE  GETS\n");
    }

    #[test]
    fn bytes_have_three_digits() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (150 << 20, "150 MiB"), (u64::MAX, "16384 PiB")];
        for (count, due) in cases {
            assert_eq!(bytes(count), due);
        }
    }
}

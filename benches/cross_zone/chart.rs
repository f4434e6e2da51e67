//! The chart of the README: workload (a) of each system that kept up with it as bars, in plain SVG.

use std::fmt::Write as _;

use crate::measure::OTHER;
use crate::report::{Row, bytes};

const WIDTH: f64 = 880.0;
const LABEL: f64 = 190.0;
const BAR: f64 = 18.0;
const ROW: f64 = 26.0;
const GAP: f64 = 18.0;
const COLORS: [&str; 9] =
    ["#3b6fb6", "#e08a2c", "#5a9e4b", "#b5483f", "#7d62a8", "#8a6a52", "#d17ab3", "#7f7f7f", "#36a2a8"];
/// A smaller share of a bar is not seen.
const SHARE_SEEN: f64 = 0.01;
const PLAIN: &str = "#3b6fb6";

/// One bar: segments one after another, and what is said at its end.
struct Bar {
    label: String,
    segments: Vec<(String, f64)>,
    said: String,
}

pub fn draw(rows: &[Row]) -> String {
    let (mut rows, late): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|row| row.workload.starts_with("a:")).partition(|row| row.kept_up());
    rows.sort_by_key(|row| row.system != "milepost");
    let mut svg = Svg { body: String::new(), y: 16.0 };
    // What did not keep up was not measured under this load: beside the others it would look like a comparison.
    for row in late {
        svg.text(8.0, svg.y + 12.0, &format!("not drawn, did not keep up with this load: {}", label(row)), "");
        svg.y += 18.0;
    }
    svg.panel(0.0, WIDTH, "bytes across zones for each byte produced", &split(&rows, |_| true));
    svg.panel(0.0, WIDTH, "the same, Milepost alone, larger", &split(&rows, |row| row.system == "milepost"));
    svg.legend(&kinds(&rows));
    let per_mb = |count: u64, row: &Row| count as f64 / (row.produced_bytes as f64 / 1e6);
    let per_byte = |count: u64, row: &Row| count as f64 / row.produced_bytes as f64;
    svg.pair(
        ("dollars per GB: traffic and requests, S3 Standard", &plain(&rows, 4, |row| row.dollars_per_gb)),
        ("broker CPU seconds per GB", &plain(&rows, 1, |row| row.broker_cpu_s_per_gb)),
    );
    let (timed, saturated): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.had_spare());
    if !timed.is_empty() {
        svg.pair(
            ("acknowledged, p50, ms", &plain(&timed, 0, |row| row.ack_p50_ms)),
            ("acknowledged, p99, ms", &plain(&timed, 0, |row| row.ack_p99_ms)),
        );
        svg.pair(
            ("end to end, p50, ms", &plain(&timed, 0, |row| row.e2e_p50_ms)),
            ("end to end, p99, ms", &plain(&timed, 0, |row| row.e2e_p99_ms)),
        );
    }
    for row in saturated {
        svg.text(8.0, svg.y, &format!("times not drawn, the machine had nothing to spare: {}", label(row)), "");
        svg.y += GAP;
    }
    let stored: Vec<&Row> = rows.iter().copied().filter(|row| row.store_puts > 0).collect();
    svg.pair(
        ("store: PUTs per MB produced", &plain(&stored, 2, |row| Some(per_mb(row.store_puts, row)))),
        ("store: GETs per object and zone", &plain(&stored, 2, |row| row.gets_per_object_per_zone)),
    );
    svg.pair(
        ("store: bytes in per byte produced", &plain(&stored, 2, |row| Some(per_byte(row.store_bytes_in, row)))),
        ("store: bytes out per byte produced", &plain(&stored, 2, |row| Some(per_byte(row.store_bytes_out, row)))),
    );
    svg.finish()
}

fn label(row: &Row) -> String {
    let system = match row.system.as_str() {
        "milepost" => "Milepost",
        "kafka" => "Apache Kafka",
        "kafka-follower-fetching" => "Kafka, follower fetching",
        other => other,
    };
    match row.workload.split_once(", ") {
        Some((_, variant)) => format!("{system}, {variant}"),
        None => system.to_owned(),
    }
}

/// The cross-zone ratio of each row, by kind.
fn split(rows: &[&Row], wanted: impl Fn(&Row) -> bool) -> Vec<Bar> {
    let bar = |row: &&Row| {
        let (ratio, produced) = (row.cross_zone_ratio.unwrap_or(0.0), row.produced_bytes);
        let digits = if ratio < 0.1 { 4 } else { 2 };
        Bar {
            label: label(row),
            segments: shown(row).map(|(kind, count)| (kind.to_owned(), count as f64 / produced as f64)).collect(),
            said: format!("{ratio:.digits$} ({} of {})", bytes(row.cross_zone_bytes), bytes(produced)),
        }
    };
    rows.iter().filter(|row| wanted(row)).map(bar).collect()
}

fn plain(rows: &[&Row], digits: usize, of: impl Fn(&Row) -> Option<f64>) -> Vec<Bar> {
    let bar = |row: &&Row| {
        let value = of(row)?;
        Some(Bar { label: label(row), segments: vec![(String::new(), value)], said: format!("{value:.digits$}") })
    };
    rows.iter().filter_map(bar).collect()
}

/// Kinds that can be seen in a bar, and the others together.
fn shown(row: &Row) -> impl Iterator<Item = (&str, u64)> {
    let is_seen = |kind: &str, count: u64| kind != OTHER && count as f64 >= SHARE_SEEN * row.cross_zone_bytes as f64;
    let kinds = row.bytes_by_kind.iter().map(|(kind, count)| (kind.as_str(), *count));
    let rest: u64 = kinds.clone().filter(|(kind, count)| !is_seen(kind, *count)).map(|(_, count)| count).sum();
    kinds.filter(move |(kind, count)| is_seen(kind, *count)).chain((rest > 0).then_some((OTHER, rest)))
}

fn kinds<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut kinds: Vec<&str> = rows.iter().flat_map(|row| shown(row)).map(|(kind, _)| kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

struct Svg {
    body: String,
    y: f64,
}

impl Svg {
    /// Two panels side by side.
    fn pair(&mut self, left: (&str, &[Bar]), right: (&str, &[Bar])) {
        let (top, half) = (self.y, (WIDTH - GAP) / 2.0);
        self.panel(0.0, half, left.0, left.1);
        let bottom = std::mem::replace(&mut self.y, top);
        self.panel(half + GAP, half, right.0, right.1);
        self.y = self.y.max(bottom);
    }

    fn panel(&mut self, x: f64, width: f64, title: &str, bars: &[Bar]) {
        self.text(x + 8.0, self.y + 12.0, title, "font-weight=\"bold\"");
        self.y += 22.0;
        let total = |bar: &Bar| bar.segments.iter().map(|(_, value)| value).sum::<f64>();
        let longest = bars.iter().map(total).fold(f64::MIN_POSITIVE, f64::max);
        let said = bars.iter().map(|bar| bar.said.len()).max().unwrap_or(0) as f64 * 6.5;
        let room = width - LABEL - said - 24.0;
        for bar in bars {
            self.text(x + LABEL, self.y + 13.0, &bar.label, "text-anchor=\"end\"");
            let mut at = x + LABEL + 8.0;
            for (kind, value) in &bar.segments {
                let (length, color) = (value / longest * room, if kind.is_empty() { PLAIN } else { color(kind) });
                let _ = writeln!(
                    self.body,
                    "<rect x=\"{at:.1}\" y=\"{:.1}\" width=\"{length:.2}\" height=\"{BAR}\" fill=\"{color}\"/>",
                    self.y
                );
                at += length;
            }
            self.text(at + 6.0, self.y + 13.0, &bar.said, "");
            self.y += ROW;
        }
        self.y += GAP;
    }

    fn legend(&mut self, kinds: &[&str]) {
        let mut x = 8.0;
        for kind in kinds {
            let width = 26.0 + kind.len() as f64 * 7.0;
            if x + width > WIDTH {
                (x, self.y) = (8.0, self.y + 18.0);
            }
            let (y, color) = (self.y - 10.0, color(kind));
            let _ = writeln!(self.body, "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"10\" fill=\"{color}\"/>");
            self.text(x + 14.0, self.y, kind, "");
            x += width;
        }
        self.y += GAP;
    }

    fn text(&mut self, x: f64, y: f64, text: &str, more: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(self.body, "<text x=\"{x:.1}\" y=\"{y:.1}\" {more}>{text}</text>");
    }

    fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" font-family=\"sans-serif\" \
             font-size=\"12\" fill=\"#222\">\n<rect width=\"{WIDTH}\" height=\"{0}\" fill=\"#fff\"/>\n{1}</svg>\n",
            self.y, self.body
        )
    }
}

/// The same kind has the same colour in every chart.
fn color(kind: &str) -> &'static str {
    const KNOWN: [&str; 8] = ["replication", "produce", "fetch", "controller", "append", "beat", "commit", "headers"];
    let known = KNOWN.iter().position(|known| *known == kind);
    COLORS[known.unwrap_or_else(|| kind.bytes().map(usize::from).sum::<usize>() % COLORS.len())]
}

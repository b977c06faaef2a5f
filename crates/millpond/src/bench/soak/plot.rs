//! A long run as a picture: small multiples over one axis of time, as SVG without any script or font of its own. It has
//! no background, and its colours are of middle brightness, so that it may stand on a light page and on a dark one. The
//! times in which the consumers stood still are shaded; dashes are the medians that are judged. Latencies are on a
//! logarithmic axis, for one slow checkpoint must not flatten all else.

use std::fmt::Write;
use std::ops::RangeInclusive;

use super::axis::{Axis, label};
use super::flat::{self, EARLY, LATE, Medians, Quantity};
use super::sample::Sample;

const WIDTH: f64 = 860.0;
/// Where lines begin and end; labels of the values stand left of it.
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 16.0;
/// Above the first panel: the title.
const TOP: f64 = 44.0;
/// From one panel to the next, and how much of it is plot; its heading stands in the rest.
const PANEL: f64 = 132.0;
const PLOT: f64 = 96.0;
/// Below the last panel: the axis of time.
const BOTTOM: f64 = 48.0;
/// At most as many steps on an axis.
const LINES: u32 = 4;
const TIMES: u32 = 12;
const GREY: &str = "#6e7781";
const COLOURS: [&str; 2] = ["#2f81f7", "#d4762c"];
const MEDIAN: &str = "#a35fe0";

/// What is drawn.
pub struct Plot<'a> {
    /// What the run was.
    pub title: String,
    /// Its samples.
    pub samples: &'a [Sample],
    /// How long a period of the consumers' rhythm lasted, in seconds.
    pub period: f64,
}

struct Panel {
    heading: &'static str,
    log: bool,
    series: &'static [Quantity],
    /// Which of the series is judged.
    judged: Option<usize>,
}

const PANELS: [Panel; 6] = [
    Panel {
        heading: "Throughput, messages/s",
        log: false,
        series: &[
            Quantity { name: "published", unit: "messages/s", value: |sample| Some(sample.published) },
            Quantity { name: "delivered", unit: "messages/s", value: |sample| Some(sample.delivered) },
        ],
        judged: None,
    },
    Panel {
        heading: "Backlog, messages",
        log: false,
        series: &[Quantity { name: "waiting", unit: "messages", value: |sample| Some(sample.backlog as f64) }],
        judged: None,
    },
    Panel {
        heading: "Publish sent to confirmed, ms",
        log: true,
        series: &[
            flat::PUBLISH_P99,
            Quantity { name: "publish p50", unit: "ms", value: |sample| Some(sample.publish_p50? / 1e3) },
        ],
        judged: Some(0),
    },
    Panel {
        heading: "Publish sent to delivered while consumers keep up, ms",
        log: true,
        series: &[flat::DELIVERY_P99],
        judged: Some(0),
    },
    Panel { heading: "Resident memory, MiB", log: false, series: &[flat::RESIDENT], judged: Some(0) },
    Panel { heading: "On disk, MiB", log: false, series: &[flat::DISK], judged: Some(0) },
];

impl Plot<'_> {
    /// The picture. Panels of figures that could not be taken are left out.
    pub fn svg(&self) -> String {
        let known = |panel: &&Panel| self.samples.iter().any(|sample| (panel.series[0].value)(sample).is_some());
        let panels: Vec<&Panel> = PANELS.iter().filter(known).collect();
        let height = TOP + PANEL * panels.len() as f64 + BOTTOM;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{GREY}\">\n"
        );
        let title = escaped(&self.title);
        put(&mut svg, format_args!("<title>{title}</title>"));
        put(&mut svg, format_args!("<text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"600\">{title}</text>"));
        for (place, panel) in panels.into_iter().enumerate() {
            self.panel(&mut svg, panel, TOP + PANEL * place as f64);
        }
        self.times(&mut svg, height - BOTTOM);
        svg += "</svg>\n";
        svg
    }

    fn panel(&self, svg: &mut String, panel: &Panel, top: f64) {
        let values = panel.series.iter().flat_map(|series| self.samples.iter().filter_map(series.value));
        let axis = if panel.log { Axis::log(values) } else { Axis::linear(values.fold(0.0, f64::max), LINES) };
        let bottom = top + PANEL - (PANEL - PLOT) / 2.0;
        let y = |value: f64| bottom - PLOT * axis.share(value);
        put(svg, format_args!("<g>\n<path d=\"{}\" fill-opacity=\"0.12\"/>", self.stills(bottom)));
        put(svg, format_args!("<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>", bottom - PLOT - 8.0, panel.heading));
        for value in axis.lines() {
            let (at, text) = (y(value), label(value));
            put(svg, format_args!("<path d=\"M{LEFT},{at:.1}H{RIGHT}\" stroke=\"{GREY}\" stroke-opacity=\"0.3\"/>"));
            put(
                svg,
                format_args!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", LEFT - 8.0, at + 4.0),
            );
        }
        for (place, (series, colour)) in panel.series.iter().zip(COLOURS).enumerate() {
            let line = self.line(series.value, y);
            put(
                svg,
                format_args!(
                    "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" \
                     stroke-linecap=\"round\" stroke-linejoin=\"round\"/>"
                ),
            );
            let (x, at) = (RIGHT - 110.0 * (panel.series.len() - 1 - place) as f64, bottom - PLOT - 8.0);
            let name = series.name;
            put(svg, format_args!("<text x=\"{x}\" y=\"{at:.1}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>"));
        }
        let judged = panel.judged.and_then(|place| Medians::of(panel.series[place], self.samples));
        for (median, part) in judged.into_iter().flat_map(|m| [(m.early, EARLY), (m.late, LATE)]) {
            self.median(svg, y(median), part);
        }
        svg.push_str("</g>\n");
    }

    /// The values one after the other, with a gap where there is none.
    fn line(&self, value: fn(&Sample) -> Option<f64>, y: impl Fn(f64) -> f64) -> String {
        let mut path = String::new();
        let mut drawing = false;
        for sample in self.samples {
            match value(sample) {
                // Going nowhere leaves a dot, should the next value be missing.
                Some(value) if !drawing => put(&mut path, format_args!("M{:.1},{:.1}h0", self.x(sample.at), y(value))),
                Some(value) => put(&mut path, format_args!("L{:.1},{:.1}", self.x(sample.at), y(value))),
                None => {}
            }
            drawing = value(sample).is_some();
        }
        path.replace('\n', "")
    }

    fn median(&self, svg: &mut String, y: f64, part: RangeInclusive<f64>) {
        let (from, to) = (self.x(part.start() * self.seconds()), self.x(part.end() * self.seconds()));
        put(
            svg,
            format_args!(
                "<path d=\"M{from:.1},{y:.1}H{to:.1}\" stroke=\"{MEDIAN}\" stroke-width=\"2\" stroke-dasharray=\"6 4\"/>"
            ),
        );
    }

    /// The times in which the consumers stood still.
    fn stills(&self, bottom: f64) -> String {
        let periods = (self.seconds() / self.period).ceil() as u32;
        let still = |period| {
            let from = f64::from(period) * self.period;
            let width = self.x((from + self.period / 3.0).min(self.seconds())) - self.x(from);
            format!("M{:.1},{bottom:.1}v-{PLOT}h{width:.1}v{PLOT}z", self.x(from))
        };
        (0..periods).map(still).collect()
    }

    fn times(&self, svg: &mut String, bottom: f64) {
        let (unit, name) = if self.seconds() < 180.0 { (1.0, "seconds") } else { (60.0, "minutes") };
        for time in Axis::linear(self.seconds() / unit, TIMES).lines() {
            if time * unit <= self.seconds() * 1.001 {
                let (x, text) = (self.x(time * unit), label(time));
                put(
                    svg,
                    format_args!("<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", bottom + 4.0),
                );
            }
        }
        let (x, y) = ((LEFT + RIGHT) / 2.0, bottom + 24.0);
        put(
            svg,
            format_args!(
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{name} since the begin; shaded: consumers stand still; \
                 dashed: the medians that are compared</text>"
            ),
        );
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / self.seconds())
    }

    fn seconds(&self) -> f64 {
        self.samples.last().map_or(1.0, |sample| sample.at)
    }
}

fn put(svg: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("a string takes all");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;

use super::super::super::disk::Usage;
use super::*;

/// Half an hour in steps of a minute, of which every other has a latency of deliveries.
fn samples() -> Vec<Sample> {
    let sample = |minute: u32| Sample {
        at: f64::from(minute) * 60.0,
        published: 20_000.0,
        delivered: if minute % 3 == 1 { 0.0 } else { 30_000.0 },
        publish_p50: Some(400.0),
        publish_p99: Some(if minute == 7 { 90_000.0 } else { 2_000.0 }),
        delivery_p99: minute.is_multiple_of(2).then_some(5_000.0),
        resident: Some(700 << 20),
        disk: Some(Usage { allocated: 1500 << 20, ..Usage::default() }),
        backlog: if minute % 3 == 1 { 400_000 } else { 12 },
    };
    (1..=30).map(sample).collect()
}

fn svg(samples: &[Sample]) -> String {
    Plot { title: "soak of <all> & sundry".into(), samples, period: 180.0 }.svg()
}

/// The texts in their order, and of each panel its elements: `s` a shade, `t` a text, `g` a grid line, `l` a line, `m` a
/// median.
fn structure(svg: &str) -> (Vec<&str>, Vec<String>) {
    let texts = svg.lines().filter(|line| line.starts_with("<text"));
    let texts = texts.map(|line| line.split('>').nth(1).unwrap().trim_end_matches("</text")).collect();
    let kind = |line: &str| match line {
        _ if line.starts_with("<text") => 't',
        _ if line.contains("fill-opacity") => 's',
        _ if line.contains("stroke-opacity") => 'g',
        _ if line.contains("stroke-dasharray") => 'm',
        _ if line.contains("fill=\"none\"") => 'l',
        _ => panic!("{line}"),
    };
    let panels = svg.split("<g>\n").skip(1).map(|panel| panel.split("</g>").next().unwrap());
    (texts, panels.map(|panel| panel.lines().map(kind).collect()).collect())
}

#[test]
fn a_run_is_drawn_as_panels_over_one_axis_of_time() {
    let samples = samples();
    let svg = svg(&samples);
    let (texts, panels) = structure(&svg);
    let expected = "soak of &lt;all&gt; &amp; sundry|\
        Throughput, messages/s|0|10k|20k|30k|published|delivered|\
        Backlog, messages|0|100k|200k|300k|400k|waiting|\
        Publish sent to confirmed, ms|0.1|1|10|100|publish p99|publish p50|\
        Publish sent to delivered while consumers keep up, ms|1|10|delivery p99|\
        Resident memory, MiB|0|200|400|600|800|resident memory|\
        On disk, MiB|0|500|1000|1500|disk|\
        0|5|10|15|20|25|30|\
        minutes since the begin; shaded: consumers stand still; dashed: the medians that are compared";
    assert_eq!(texts.join("|"), expected);
    assert_eq!(
        panels,
        ["stgtgtgtgtltlt", "stgtgtgtgtgtlt", "stgtgtgtgtltltmm", "stgtgtltmm", "stgtgtgtgtgtltmm", "stgtgtgtgtltmm"]
    );
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
}

#[test]
fn lines_have_gaps_and_stay_inside() {
    let samples = samples();
    let svg = svg(&samples);
    let line = |name: &str| {
        let at = svg.find(&format!(">{name}</text>")).unwrap();
        svg[..at].rsplit("<path d=\"").next().unwrap().split('"').next().unwrap()
    };
    // A value every other minute is a dot each time; one every minute is one line.
    assert_eq!(line("delivery p99").matches('M').count(), 15);
    assert_eq!((line("disk").matches('M').count(), line("disk").matches('L').count()), (1, 29));
    assert!(line("disk").ends_with(&format!("L{RIGHT:.1},{:.1}", TOP + 6.0 * PANEL - (PANEL - PLOT) / 2.0 - PLOT)));
}

#[test]
fn what_could_not_be_taken_has_no_panel() {
    let blank = |sample| Sample { resident: None, disk: None, ..sample };
    let samples: Vec<Sample> = samples().into_iter().map(blank).collect();
    let svg = svg(&samples);
    let (_, panels) = structure(&svg);
    assert_eq!(panels.len(), 4);
    assert!(!svg.contains("NaN") && !self::svg(&[]).contains("NaN"));
}

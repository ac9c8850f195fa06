//! Compares each view of the page with its golden picture: on a desktop, on a phone and on paper, in a real Chromium. The top
//! of the page has pictures in dark colours, too.
//!
//! The pictures are in golden/, as `support::picture` describes; `SQUALL_UPDATE_PICTURES=1` refreshes them. All letters are
//! blocks of the same width (golden/blocks.py), so that the fonts of a machine change neither their looks nor where lines
//! break. The labels on the axes of dots, which the page draws on a canvas, keep their font and are not in the picture.
//! How the page behaves is tested elsewhere, such as in `zoom` and `keyboard`.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use squall_analysis::detail::TrialDetail;
use squall_base::record::Outcome;
use squall_report::{TrialPoints, html};

use crate::causes::{causes, summary};
use crate::details::{REQUEST, detailed, found, shows};
use crate::support::chromium::{self, Page};
use crate::support::overlay::NAMES;
use crate::support::picture::{self, Picture};
use crate::support::run::{Size, run, spoil};

const LETTERS: &[u8] = include_bytes!("golden/blocks.ttf");

/// Sets the letters, and hides what only repeats the rest: all conditions but one, and other parts. It also hides the buttons
/// between the drawings of a dialog, and the courses unless they are the view.
const STYLE: &str = "*, *::before, *::after { font-family: Blocks !important; font-synthesis: none !important; } \
                     #condition-0, #condition-1, :root:not(.with-courses) .courses, .details, .method, #detail .save \
                     { display: none !important; }";

/// A part of the page, and what makes it that part: without `essential`, its picture must differ.
struct View {
    name: &'static str,
    selector: &'static str,
    essential: &'static str,
    /// The request or connection that must be shown in full first.
    detail: Option<&'static str>,
}

const fn view(name: &'static str, selector: &'static str, essential: &'static str) -> View {
    View {
        name,
        selector,
        essential,
        detail: None,
    }
}

/// Dialogs come last: they cover the page.
const VIEWS: [View; 13] = [
    view("answer", ".overview", ".overview .answer"),
    view("bars", ".bars [data-statistic=p99] svg", ".bar-value"),
    view(
        "grid",
        ".compared:not([hidden]) .grid-of-winners",
        ".grid-of-winners td",
    ),
    view("findings", ".findings", ".finding summary"),
    view("causes", "#condition-2 .causes", ".causes .bar"),
    view(
        "percentiles",
        "#condition-2 .shapes figure:first-of-type svg",
        ".shapes .curve",
    ),
    view(
        "boxes",
        "#condition-2 .shapes figure:last-of-type svg",
        ".shapes .box",
    ),
    view(
        "heat",
        "#condition-2 .heat-maps figure:first-of-type svg",
        ".heat-maps .heat",
    ),
    view(
        "courses",
        "#condition-2 .courses figure:first-of-type",
        "#condition-2 .courses path",
    ),
    view(
        "dots",
        "#condition-2 .overlay .u-over",
        "#condition-2 .overlay canvas",
    ),
    View {
        detail: Some("request-6-1000"),
        ..view(
            "request",
            "#detail .scroll:has(.drawing)",
            "#detail .drawing .stage",
        )
    },
    View {
        detail: Some("connection-6-1-0"),
        ..view(
            "connection",
            "#detail .scroll:has(.drawing)",
            "#detail .held, #detail .area, #detail .dots, #detail .packet",
        )
    },
    View {
        detail: Some("connection-6-1-1"),
        ..view(
            "quic",
            "#detail .scroll:has(.drawing)",
            "#detail .held, #detail .area, #detail .dots, #detail .packet",
        )
    },
];

/// How many views, from the first, are the top of the page.
const TOP: usize = 2;

/// What the page is drawn on.
struct Medium {
    name: &'static str,
    width: u32,
    media: &'static str,
    scheme: &'static str,
}

const DESK: Medium = Medium {
    name: "desk",
    width: 1_280,
    media: "screen",
    scheme: "light",
};

const DARK: Medium = Medium {
    name: "dark",
    scheme: "dark",
    ..DESK
};

const PHONE: Medium = Medium {
    name: "phone",
    width: 390,
    media: "screen",
    scheme: "light",
};

/// A4 has 794 CSS pixels across; margins of 1 cm take 38 on each side.
const PAPER: Medium = Medium {
    name: "paper",
    width: 718,
    media: "print",
    scheme: "light",
};

/// The page of a made run with everything that the views show.
fn page() -> String {
    // Enough repetitions to prove a difference.
    let mut run = run(
        &NAMES,
        Size {
            repetitions: 8,
            ..Size::SMALL
        },
    );
    // The trial whose points are shown first, apart from its request in full.
    let (record, requests) = &mut run.records[6];
    assert_eq!(record.trial.index, 6);
    spoil(requests, 100, 400, Outcome::Censored);
    spoil(requests, 300, 400, Outcome::StreamReset);
    let cells = [found(&run, vec![REQUEST])];
    let plots = detailed(&run, add_quic).into_iter().zip(&run.records);
    let plots: Vec<TrialPoints> = plots
        .map(|(points, (_, requests))| points.with_causes(&causes(requests)))
        .collect();
    html(&summary(&run, &NAMES), &plots, &cells, &[])
}

/// The page, which is made once, opened and drawn. `name` is the name of the page's file.
fn open(name: &str, medium: &Medium) -> Option<Page> {
    static PAGE: OnceLock<String> = OnceLock::new();
    let mut page = chromium::open_markup(name, PAGE.get_or_init(page), medium.width, 900)?;
    lay_out(&mut page, medium);
    Some(page)
}

/// Adds a connection of QUIC that looks like the one of TCP.
fn add_quic(detail: &mut TrialDetail) {
    let mut quic = detail.connections[0].clone();
    (quic.trace.connection, quic.trace.is_quic) = (1, true);
    let down = &mut quic.trace.windows[0].directions[1];
    down.numbers = down.packets.clone();
    for (number, packet) in (0..).zip(&mut down.numbers.kept) {
        (packet.start, packet.end) = (number, number + 1);
    }
    for packet in &mut down.packets.kept {
        packet.stream = Some(4);
    }
    for ack in &mut down.acks.kept {
        ack.to = 1;
    }
    detail.connections.push(quic);
}

/// Draws everything, in a window as high as the page.
fn lay_out(page: &mut Page, medium: &Medium) {
    let hidden = json!({ "hidden": true });
    page.call("Emulation.setScrollbarsHidden", hidden);
    let features = json!([{ "name": "prefers-color-scheme", "value": medium.scheme }]);
    let media = json!({ "media": medium.media, "features": features });
    page.call("Emulation.setEmulatedMedia", media);
    // The page may load no font, so that it is made from memory.
    page.eval(&format!(
        "(async () => {{ \
         const bytes = Uint8Array.from(atob({:?}), (character) => character.charCodeAt(0)); \
         const face = new FontFace('Blocks', bytes, {{ weight: '100 900' }}); \
         document.fonts.add(await face.load()); \
         const style = document.createElement('style'); style.textContent = {STYLE:?}; \
         document.head.append(style); }})()",
        STANDARD.encode(LETTERS)
    ));
    page.eval("document.querySelector('.finding').open = true");
    page.eval("squall.sections[2].drawAll().then(() => true)");
    if medium.media == "print" {
        page.eval("dispatchEvent(new Event('beforeprint'))");
    }
    let height = page.eval("document.documentElement.scrollHeight");
    let height = u32::try_from(height.as_u64().unwrap()).unwrap();
    page.resize(medium.width, height);
    page.wait_for(&format!("innerHeight === {height}"));
    page.wait_for(
        "[...document.querySelectorAll('#condition-2 .plot')].every((plot) => \
         plot.dataset.points > 0 && plot.dataset.x !== undefined)",
    );
}

/// Makes a view visible: the courses, or its request or connection in full.
fn show(page: &mut Page, view: &View) {
    let is_courses = view.name == "courses";
    page.eval(&format!(
        "document.documentElement.classList.toggle('with-courses', {is_courses})"
    ));
    if let Some(id) = view.detail {
        page.eval(&format!("location.hash = '#{id}'"));
        page.wait_for(&shows(id));
    }
}

fn check_views(medium: &Medium, views: &[View]) {
    let Some(mut page) = open(&format!("golden-{}", medium.name), medium) else {
        return;
    };
    let mut faults = Vec::new();
    for view in views {
        show(&mut page, view);
        let name = format!("{}/{}", medium.name, view.name);
        faults.extend(picture::check(&mut page, &name, view.selector).err());
    }
    assert!(
        faults.is_empty(),
        "{}\n{}",
        faults.join("\n"),
        picture::how_to_update()
    );
}

#[test]
fn views_look_as_before_on_a_desktop() {
    check_views(&DESK, &VIEWS);
}

#[test]
fn top_of_the_page_looks_as_before_in_dark_colours() {
    check_views(&DARK, &VIEWS[..TOP]);
}

#[test]
fn views_look_as_before_on_a_phone() {
    check_views(&PHONE, &VIEWS);
}

#[test]
fn views_look_as_before_on_paper() {
    check_views(&PAPER, &VIEWS);
}

#[test]
fn hiding_a_views_essential_part_changes_its_picture() {
    let Some(mut page) = open("golden-bare", &DESK) else {
        return;
    };
    page.eval("document.head.append(globalThis.hiding = document.createElement('style'))");
    for view in &VIEWS {
        show(&mut page, view);
        let name = format!("whole/{}", view.name);
        let whole = Picture::take(&mut page, &name, view.selector, None);
        let rule = format!("{} {{ visibility: hidden !important; }}", view.essential);
        page.eval(&format!("hiding.textContent = {rule:?}"));
        page.wait_for("true");
        let name = format!("bare/{}", view.name);
        let bare = Picture::take(&mut page, &name, view.selector, Some(&whole));
        assert!(bare.compare(&whole).is_err(), "{}", view.name);
        page.eval("hiding.textContent = ''");
    }
}

/// A picture of 4 by 3 blocks, all of one colour.
fn plain(colour: &str) -> String {
    let row = [colour; 4].join(" ");
    format!("48 x 36 px\n{row}\n{row}\n{row}\n")
}

#[test]
fn slightly_different_pictures_count_as_equal() {
    let kept = Picture::parse(&plain("fdfdfc"));
    assert_eq!(kept.text(), plain("fdfdfc"));
    let smoothed = Picture::parse(&plain("fdfdfc").replacen("fdfdfc", "ecfdfc", 1));
    assert_eq!(smoothed.compare(&kept), Ok(()));
    let higher = Picture::parse(&plain("fdfdfc").replace("36 px", "38 px"));
    assert_eq!(higher.compare(&kept), Ok(()));
}

#[test]
fn pictures_with_other_sizes_blocks_or_shades_count_as_different() {
    let kept = Picture::parse(&plain("fdfdfc"));
    for (other, says) in [
        (
            plain("fdfdfc").replace("36 px", "50 px"),
            "it is 50 px high, and was 36 px",
        ),
        (
            plain("fdfdfc").replacen("\nfdfdfc fdfdfc", "\nfdfdfc 0072b2", 1),
            "by 253 in column 2 of row 1",
        ),
        (plain("fafafa"), "differ by 3.00 of 255 on average"),
    ] {
        let said = Picture::parse(&other).compare(&kept).unwrap_err();
        assert!(said.contains(says), "{said}");
    }
}

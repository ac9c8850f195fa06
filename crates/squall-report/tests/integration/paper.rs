//! The page on paper, in a real Chromium: what its button draws before it prints, and the PDF that the browser makes of it.
//!
//! `golden` has pictures of the page on paper; `reading` tests what is unfolded.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::full;

/// For each condition: the overlay, a plot for each of three variants, and one for each of them in both repetitions.
const PLOTS: usize = 3 * (1 + 3 + 3 * 2);

/// For each plot, how many pixels on its canvas have a colour of its points.
const INKED: &str = "squall.sections.flatMap((section) => section.scatters).map(({ scatter }) => { \
                     if (!scatter) return 0; \
                     const { ctx } = scatter.plot; \
                     const colours = new Set(scatter.raster.pixels.filter((pixel) => pixel >>> 24 === 255)); \
                     const { data } = ctx.getImageData(0, 0, ctx.canvas.width, ctx.canvas.height); \
                     return new Uint32Array(data.buffer).filter((pixel) => colours.has(pixel)).length; })";

#[test]
fn print_button_draws_every_plot_and_all_of_them_are_in_the_pdf() {
    let Some(mut page) = full::open("print", 1_280) else {
        return;
    };
    page.eval("globalThis.printed = 0; globalThis.print = () => { printed += 1; }; 0");
    page.click("header .print");
    page.wait_for("printed === 1");
    // A4 has 794 CSS pixels across; margins of 1 cm take 38 on each side.
    page.resize(718, 900);
    page.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    page.eval("dispatchEvent(new Event('beforeprint'))");
    let inked: Vec<u64> = serde_json::from_value(page.eval(INKED)).unwrap();
    assert_eq!(inked.len(), PLOTS);
    assert!(inked.iter().all(|pixels| *pixels > 50), "{inked:?}");
    // Drawings and plots have room on the page.
    let hidden = page.eval(
        "[...document.querySelectorAll('.plot, main svg[role=img]')].filter((it) => { \
         const box = it.getBoundingClientRect(); return box.width < 100 || box.width > 718 || box.height < 50; }) \
         .map((it) => it.getAttribute('aria-label'))",
    );
    assert_eq!(hidden, json!([]));
    let empty = page.eval(
        "[...document.querySelectorAll('main svg[role=img]')].filter((it) => !it.querySelector('path, rect, circle')) \
         .map((it) => it.getAttribute('aria-label'))",
    );
    assert_eq!(empty, json!([]));
    let shown = "document.querySelectorAll('.side-by-side[open] .plot').length";
    assert_eq!(page.eval(shown), json!(3 * 3 * 2));
    page.eval("dispatchEvent(new Event('afterprint'))");
    let left_open = "document.querySelectorAll('.side-by-side[open]').length";
    assert_eq!(page.eval(left_open), json!(0));

    // The button again, but now the browser prints, on A4.
    page.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
    page.click("header .print");
    page.wait_for("printed === 2");
    let paper = json!({ "paperWidth": 8.27, "paperHeight": 11.69, "printBackground": true });
    let printed = page.call("Page.printToPDF", paper);
    let pdf = STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
    let pdf = String::from_utf8_lossy(&pdf);
    assert!(pdf.starts_with("%PDF-"));
    // Each canvas becomes two pictures: one of its colours, and one of its transparency.
    let pictures = pdf.matches("/Subtype /Image").count();
    assert!(pictures >= 2 * PLOTS, "{pictures} pictures");
    page.wait_for(&format!("{left_open} === 0"));
    assert_eq!(
        page.events("Runtime.exceptionThrown"),
        Vec::<serde_json::Value>::new()
    );
}

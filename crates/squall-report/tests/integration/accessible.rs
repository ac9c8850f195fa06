//! The page with all its parts as axe-core judges it, in a real Chromium: in light and dark, on a phone and on a desktop, with
//! and without a dialog.
//!
//! `support::axe` has its rules. The live page of `squall view` is checked in the tests of the binary.

use crate::details::shows;
use crate::full::open;
use crate::support::axe::{self, check};

#[test]
fn axe_core_finds_no_violation_on_the_page_and_in_its_dialogs() {
    let Some(axe) = axe::script() else {
        return;
    };
    let Some(mut page) = open("accessible", 1_280) else {
        return;
    };
    page.eval(&format!("{axe}; 0"));
    page.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; }); 0");
    for (scheme, width) in [
        ("light", 1_280),
        ("light", 390),
        ("dark", 390),
        ("dark", 1_280),
    ] {
        page.prefer(scheme);
        page.resize(width, 900);
        page.wait_for(&format!("innerWidth === {width}"));
        check(&mut page, &format!("{scheme}, {width} px"));
        for id in ["request-6-1000", "connection-6-1-0"] {
            page.eval(&format!("location.hash = '#{id}'"));
            page.wait_for(&shows(id));
            page.eval("document.querySelectorAll('#detail details').forEach((it) => { it.open = true; }); 0");
            check(&mut page, &format!("{id}, {scheme}, {width} px"));
        }
        page.click("#detail button");
        page.wait_for("!document.getElementById('detail').open");
    }
}

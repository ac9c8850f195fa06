//! The terminal's text compared with golden files, and the report in a real browser.
//!
//! `support` makes the runs and drives Chromium.

mod accessible;
mod browser;
mod causes;
mod chinese;
mod chinese_commands;
mod deliveries;
mod details;
mod explain;
mod fixes;
mod full;
mod golden;
mod keyboard;
mod large;
mod load_page;
mod page;
mod paper;
mod probe_page;
mod reading;
mod runs;
mod support;
mod tasks;
mod terminal;
mod zoom;

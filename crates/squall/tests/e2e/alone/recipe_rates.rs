//! The bundled recipe whose published figures are rates through a window: on a busy machine, window updates are late.
//!
//! What is checked is in `recipes_quick`, which has the other recipes.

use crate::recipes_quick::check_shopgun_windows;
use crate::support::quiet_seat;

#[test]
fn shopgun_windows_proves_that_throughput_is_window_per_round_trip() {
    check_shopgun_windows(quiet_seat());
}

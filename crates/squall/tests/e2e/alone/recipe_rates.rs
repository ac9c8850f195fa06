//! The bundled recipe whose published figures are rates through a window. It needs a quiet machine, because a busy one sends
//! window updates late.
//!
//! The check itself is in `recipes_quick`, which has the other recipes.

use crate::recipes_quick::check_shopgun_windows;
use crate::support::quiet_seat;

#[test]
fn shopgun_windows_proves_that_throughput_is_window_per_round_trip() {
    check_shopgun_windows(quiet_seat());
}

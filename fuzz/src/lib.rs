//! The functions that the fuzz targets in fuzz_targets/ call, one per target.
//!
//! `drive` covers connections and `drive_values` field values; squall-http's test `garbage` includes both.
//! `drive_secure` and `drive_h3` cover encrypted connections (squall-http's test `garbage_secure`), and `laws` states
//! what all clients obey. `drive_link` covers the link (a test of squall-link), `offload` its super-packets,
//! `drive_import` imports (squall-record's test `import_garbage`), and `drive_observe` and `drive_quic` the observer
//! (squall-observe's test `garbage`). `drive_words` and `drive_recipe` cover texts that users write (test `garbage` of
//! squall-recipe), `drive_thresholds` thresholds (of squall-analysis), `drive_programs` logs of load generators (of
//! squall-peers), and `drive_query` queries to `squall serve` (of squall-stations).

pub mod drive;
pub mod drive_h3;
pub mod drive_import;
pub mod drive_link;
pub mod drive_observe;
pub mod drive_programs;
pub mod drive_query;
pub mod drive_quic;
pub mod drive_recipe;
pub mod drive_secure;
pub mod drive_thresholds;
pub mod drive_values;
pub mod drive_words;
pub mod laws;
pub mod offload;

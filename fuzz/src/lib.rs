//! The functions that fuzzing drives; each target in fuzz_targets/ calls one of them.
//!
//! Those of the connections live in `drive`, and those of field values in `drive_values`, which squall-http's test `garbage`
//! includes as well, and in `drive_secure` and `drive_h3`, which its test `garbage_secure` includes; what all clients keep
//! to is in `laws`; those of the link in `drive_link`, which a test of squall-link includes, and of its super-packets in
//! `offload`; those of the imports in `drive_import`, which squall-record's test `import_garbage` includes; those of the
//! observer in `drive_observe`, which squall-observe's test `garbage` includes. What people write is read in `drive_words` and
//! `drive_recipe` (test `garbage` of squall-recipe) and in `drive_thresholds` (of squall-analysis); what load generators write
//! in `drive_programs` (of squall-peers), and what clients ask of `squall serve` in `drive_query` (of squall-stations).

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

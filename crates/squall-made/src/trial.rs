//! The record of a trial that nothing disturbed.
//!
//! It has no rows; `rows` makes those of its tables.

use squall_base::Duration;
use squall_base::plan::Trial;
use squall_base::record::{
    Direction, DirectionHealth, EffectiveSettings, Health, KernelCounters, Lateness, MachineHealth,
    TrialRecord, Validity,
};

/// The valid record of the first attempt at this trial, whose load began at once. Its only count is one connection.
pub fn record(trial: Trial) -> TrialRecord {
    TrialRecord {
        schema: 1,
        trial,
        attempt: 1,
        epoch_monotonic_ns: 0,
        epoch_unix_ns: 1_763_760_300_000_000_000,
        load_start: Duration::ZERO,
        requests: 0,
        connections_opened: 1,
        pages: None,
        gaps: None,
        hops: Vec::new(),
        stations: Vec::new(),
        station_exits: Vec::new(),
        health: health(),
        used: effective_settings(),
        files: Vec::new(),
    }
}

/// The health of a trial in which nothing was late, at 100 requests per second. Its links are not listed.
pub fn health() -> Health {
    Health {
        schedule_lag: Lateness::default(),
        link_wakeup: Lateness::default(),
        link_late: None,
        rate_asked_per_s: 100.0,
        rate_achieved_per_s: 100.0,
        link: Vec::new(),
        links: Vec::new(),
        machine: MachineHealth::default(),
        validity: Validity::Valid,
    }
}

/// One direction of the link of hop 1, this late, with no packets.
pub fn direction_health(direction: Direction, lateness: Lateness) -> DirectionHealth {
    DirectionHealth {
        hop: 1,
        direction,
        packets: 0,
        copies: 0,
        dropped: 0,
        delivered: 0,
        write_errors: 0,
        in_flight: 0,
        largest_packet_bytes: 0,
        lateness,
        kernel: KernelCounters::default(),
    }
}

/// What was in force: the default congestion control, and real-time priorities.
pub fn effective_settings() -> EffectiveSettings {
    EffectiveSettings {
        kernel: "6.1.0-test".to_owned(),
        client_congestion_control: vec!["cubic".to_owned()],
        server_congestion_control: vec!["cubic".to_owned()],
        next_links: Vec::new(),
        sysctls: [].into(),
        link_scheduling: "fifo".to_owned(),
        station_scheduling: "fifo".to_owned(),
        link_spin: Duration::ZERO,
        client_spin: Duration::ZERO,
        user_namespace: false,
    }
}

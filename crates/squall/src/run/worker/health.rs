//! How far a trial can be trusted: the thresholds, and where each comes from.
//!
//! A trial that fails one is recorded and shown, but does not count as evidence. If it was only late, by a known time,
//! it still proves larger differences. docs/METHOD.md explains each threshold. The thresholds of the link itself are in
//! `link::health`, those of resources that all programs of the machine share in `machine_health`.

use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::plan::{Implementation, Protocol, Station, Trial};
use squall_base::record::{
    DirectionHealth, EffectiveSettings, Health, HopRecord, Lateness, Validity, WireCounts,
    is_slight, lag_fault,
};
use squall_linux::link_thread::Crossings;
use squall_linux::scheduling::Scheduling;

use super::collect::ResponseTimes;
use super::machine_health::{Circumstances, has_own_buffers, judge_shared};
use crate::link::health::{CounterSources, judge_records, judge_times};

/// Everything a trial is judged by.
pub(super) struct Evidence<'a> {
    pub(super) trial: &'a Trial,
    pub(super) health: &'a Health,
    pub(super) used: &'a EffectiveSettings,
    /// The links' threads, in the order of the path.
    pub(super) links: &'a [LinkThreadEvidence],
    pub(super) response: &'a ResponseTimes,
    /// Whether both hosts had fallen silent before the kernel's counters were read.
    pub(super) is_silent: bool,
    /// How much later than the load the link's own clock started.
    pub(super) times_late: Duration,
    /// Whether idle processors are kept awake.
    pub(super) has_awake_processors: bool,
    /// Connections that this machine failed to open, by error.
    pub(super) machine_errors: &'a BTreeMap<String, u64>,
    /// Connections dropped because a listener's backlog was full.
    pub(super) listen_dropped: u64,
    /// Failures of third-party programs.
    pub(super) faults: &'a [String],
    /// What was counted on each hop.
    pub(super) hops: &'a [HopRecord],
    /// Requests answered while measuring.
    pub(super) answered: u64,
}

impl Evidence<'_> {
    /// Whether squall's own lateness changed no response times.
    fn is_slightly_late(&self) -> bool {
        self.answered > 0 && is_slight(self.response.response, self.response.without_own)
    }

    /// Whether squall's own lateness changed no response times, except through links whose thread's processor was full.
    fn is_slightly_disturbed(&self) -> bool {
        self.answered > 0 && is_slight(self.response.response, self.response.without_disturbance)
    }
}

/// A link whose thread's processor was full in this share of all response times was the bottleneck even if it was not late:
/// what waits in its devices is not late yet.
const FULL_SHARE: f64 = 0.9;

/// How the thread of a link ran.
pub(super) struct LinkThreadEvidence {
    /// The hop that crosses the link.
    pub(super) hop: u8,
    pub(super) wakeup: Lateness,
    pub(super) scheduling: Scheduling,
    /// How many times packets crossed the link's devices, by direction, if the devices exchanged super-packets.
    pub(super) offload_crossings: Option<[Crossings; 2]>,
}

/// Checks a trial against every threshold.
pub(super) fn judge(evidence: &Evidence) -> Validity {
    let mut found = Objections::default();
    judge_links(evidence, &mut found);
    judge_lag(evidence, &mut found.doubts);
    let reasons = &mut found.reasons;
    judge_machine(evidence, reasons);
    judge_congestion_control(evidence, reasons);
    for hop in evidence.hops {
        judge_protocols(hop, reasons);
        judge_silence(hop, evidence.answered, reasons);
    }
    reasons.extend_from_slice(evidence.faults);
    found.validity(evidence.answered > 0)
}

/// The objections to a trial.
#[derive(Debug, Default)]
struct Objections {
    /// Why the trial does not count as evidence.
    reasons: Vec<String>,
    /// What was late. How much time that added to each request is known.
    doubts: Vec<String>,
    /// What the links that were the bottleneck carried.
    limits: Vec<String>,
}

impl Objections {
    /// Without response times, the effect of a doubt cannot be computed. The figures of a limited trial are only bounds: with a
    /// doubt as well, they say nothing. Either makes the trial invalid.
    fn validity(self, has_response_times: bool) -> Validity {
        let Objections {
            mut reasons,
            doubts,
            limits,
        } = self;
        match (doubts.is_empty(), limits.is_empty()) {
            (true, true) if reasons.is_empty() => Validity::Valid,
            (true, false) if reasons.is_empty() => Validity::Limited { reasons: limits },
            (false, true) if reasons.is_empty() && has_response_times => {
                Validity::Doubtful { reasons: doubts }
            }
            _ => {
                reasons.extend(doubts);
                Validity::Invalid { reasons }
            }
        }
    }
}

/// Judges each link by itself; a reason names its hop if there are several. A link may run late where that changes no response
/// times; elsewhere, that is a doubt. If it was late because its thread's processor was full, it was the bottleneck.
fn judge_links(evidence: &Evidence, found: &mut Objections) {
    let by_packet = counter_sources(evidence.trial);
    let may_be_late = evidence.is_slightly_late();
    let may_be_full = evidence.is_slightly_disturbed();
    let threads = evidence.health.links.iter();
    let full_shares = threads.zip(&evidence.response.full_shares);
    for (link, (thread, full_share)) in evidence.links.iter().zip(full_shares) {
        let own = evidence.health.link.iter().filter(|it| it.hop == link.hop);
        let directions: Vec<DirectionHealth> = own.copied().collect();
        let counter_sources = match link.offload_crossings {
            Some(crossings) => CounterSources::DevicesWithOffloads(crossings),
            None => by_packet,
        };
        let faults = judge_records(&directions, counter_sources);
        let late = if may_be_late {
            Vec::new()
        } else {
            judge_times(&directions, &link.wakeup, link.scheduling)
        };
        let of_hop = of_hop(evidence, link.hop);
        match thread.carried_bit_per_s {
            Some(carried) if (may_be_full && !late.is_empty()) || *full_share >= FULL_SHARE => {
                found.limits.push(format!("{of_hop}{}", limit(carried)));
            }
            _ => {
                let late = late.iter().map(|doubt| format!("{of_hop}{doubt}"));
                found.doubts.extend(late);
            }
        }
        let faults = faults.iter().map(|reason| format!("{of_hop}{reason}"));
        found.reasons.extend(faults);
    }
}

/// What a link whose thread's processor was full carried.
fn limit(carried_bit_per_s: u64) -> String {
    format!(
        "the link's thread had no processor time left, so the emulated path carries {} here: set `rate`",
        bits_in_words(carried_bit_per_s)
    )
}

fn bits_in_words(bits_per_s: u64) -> String {
    match bits_per_s {
        rate if rate >= 1_000_000_000 => format!("{:.2} Gbit/s", rate as f64 / 1e9),
        rate => format!("{:.1} Mbit/s", rate as f64 / 1e6),
    }
}

/// `hop 2: ` before a reason about a link, if there are several.
fn of_hop(evidence: &Evidence, hop: u8) -> String {
    match evidence.trial.variant.links() {
        0 | 1 => String::new(),
        _ => format!("hop {hop}: "),
    }
}

/// The IP layer also counts packets of hops inside a host, of readiness checks of programs, and of the connection that
/// teaches the kernel a cap of the congestion window. The IP layer's counters are therefore used only without any of
/// these.
fn counter_sources(trial: &Trial) -> CounterSources {
    let variant = &trial.variant;
    let is_ours = |station: &Station| station.runs == Implementation::Embedded;
    let (_, hop) = variant.link_hop();
    let is_capped = [&hop.client, &hop.server].map(|side| side.tcp.max_cwnd.is_some());
    if variant.hops.len() == 1 && variant.stations.iter().all(is_ours) && !is_capped.contains(&true)
    {
        CounterSources::DevicesAndIp
    } else {
        CounterSources::Devices
    }
}

/// The machine must have done what it was asked to do.
fn judge_machine(evidence: &Evidence, reasons: &mut Vec<String>) {
    if !evidence.is_silent {
        reasons.push("the hosts kept sending, so the kernel's counters are not final".to_owned());
    }
    judge_start(evidence.times_late, reasons);
    judge_shared(
        &evidence.health.machine,
        Circumstances {
            has_own_buffers: has_own_buffers(&evidence.trial.variant),
            is_slightly_late: evidence.is_slightly_late(),
            has_awake_processors: evidence.has_awake_processors,
        },
        reasons,
    );
    for (said, times) in evidence.machine_errors {
        reasons.push(format!(
            "this machine failed to open {times} connections: {said}"
        ));
    }
    judge_listening(evidence.listen_dropped, reasons);
}

/// No listening socket may have turned connections away. The limit of its queue is the machine's, unless a station asks for
/// less.
fn judge_listening(dropped: u64, reasons: &mut Vec<String>) {
    if dropped > 0 {
        reasons.push(format!(
            "the kernel turned {dropped} connections away from the queue of a listening socket (net.core.somaxconn)"
        ));
    }
}

/// All variants must meet the same link conditions at the same time of their load.
fn judge_start(late: Duration, reasons: &mut Vec<String>) {
    if late > Duration::ZERO {
        reasons.push(format!(
            "the link's schedule, blackouts, weather and traces began {:.3} ms after the load",
            late.as_millis_f64()
        ));
    }
}

fn judge_congestion_control(evidence: &Evidence, reasons: &mut Vec<String>) {
    let used = evidence.used;
    let first = (
        &used.client_congestion_control,
        &used.server_congestion_control,
    );
    let next = used.next_links.iter();
    let next = next.map(|link| (&link.client, &link.server));
    let links = evidence.trial.variant.link_hops();
    for ((number, hop), (client, server)) in links.zip(std::iter::once(first).chain(next)) {
        let of_hop = of_hop(evidence, number);
        let sides = [
            ("client", &hop.client.tcp.congestion_control, client),
            ("server", &hop.server.tcp.congestion_control, server),
        ];
        for (side, asked, found) in sides {
            if let Some(asked) = asked
                && found.iter().any(|name| name != asked)
            {
                reasons.push(format!(
                    "{of_hop}the {side}'s sockets used {}, not {asked}",
                    found.join(" and ")
                ));
            }
        }
    }
}

/// Every connection must have used the protocol that the path names: a connection that fell back to another version
/// would answer a different question. Our own stations know what they spoke; on a hop without one, packets show it.
fn judge_protocols(hop: &HopRecord, reasons: &mut Vec<String>) {
    let sides = [("client", &hop.client), ("server", &hop.server)];
    let own = sides.into_iter().filter_map(|(side, counts)| {
        let protocols = &counts.as_ref()?.protocols;
        Some((format!("according to its {side}"), protocols))
    });
    let by_packets = match (&hop.client, &hop.server, &hop.wire) {
        (None, None, Some(wire)) => Some(("according to its packets".to_owned(), &wire.protocols)),
        _ => None,
    };
    for (witness, protocols) in own.chain(by_packets) {
        for (spoken, connections) in protocols
            .iter()
            .filter(|(name, _)| !fits(name, hop.protocol))
        {
            reasons.push(format!(
                "{connections} connections of hop {} spoke {spoken}, not {}, {witness}",
                hop.hop, hop.protocol
            ));
        }
    }
    judge_alpn(hop, reasons);
}

/// Whether the observed protocol is this one, or may be if it could not be decrypted.
fn fits(spoken: &str, protocol: Protocol) -> bool {
    match spoken {
        WireCounts::UNREAD_TLS => matches!(protocol, Protocol::H1s | Protocol::H2),
        WireCounts::UNREAD_QUIC => protocol == Protocol::H3,
        name => name == protocol.name(),
    }
}

/// Over TLS, HTTP/2 requires that the client offered it by ALPN (RFC 9113, section 3.2).
fn judge_alpn(hop: &HopRecord, reasons: &mut Vec<String>) {
    if hop.protocol != Protocol::H2 {
        return;
    }
    let unread = hop.wire.iter().flat_map(|wire| &wire.unread_alpn);
    for (offered, connections) in unread {
        if !offered.split(',').any(|name| name == "h2") {
            reasons.push(format!(
                "{connections} connections of hop {} cannot have spoken h2: their client offered \"{offered}\" by ALPN",
                hop.hop
            ));
        }
    }
}

/// Every answered request should have crossed every hop; if nothing was seen on a hop, a station before it answers by
/// itself.
fn judge_silence(hop: &HopRecord, answered: u64, reasons: &mut Vec<String>) {
    let own = [&hop.client, &hop.server].into_iter().flatten();
    let protocols = own.map(|counts| &counts.protocols);
    let mut all = protocols.chain(hop.wire.as_ref().map(|wire| &wire.protocols));
    if answered > 0 && all.all(BTreeMap::is_empty) {
        reasons.push(format!(
            "no HTTP was seen on hop {}, yet requests were answered",
            hop.hop
        ));
    }
}

fn judge_lag(evidence: &Evidence, doubts: &mut Vec<String>) {
    let lag = &evidence.health.schedule_lag;
    let response = evidence.response;
    let fault = lag_fault(lag, response.response, || response.without_own);
    if let Some(fault) = fault {
        doubts.push(format!(
            "the generator was late: lag {} {:.3} ms, at most {:.3} ms is sound",
            fault.percentile,
            fault.lag.as_millis_f64(),
            fault.at_most.as_millis_f64()
        ));
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::LinkThreadHealth;
    use squall_recipe::{NoFiles, StationMode, parse_with};

    use super::*;

    const RECIPE: &str = "name = \"x\"\nquestion = \"?\"\n[load]\nrate = \"1/s\"\n[conditions]\ndelay = \"1ms\"\n\
                          [[variant]]\nname = \"v\"\npath = \"client ~h1~> server\"\n[profile.standard]\n\
                          warmup = \"0s\"\nduration = \"1s\"\n";

    /// Judges a link: returns the doubts about the trial, and the limits. Response times are 100 ms; without squall's lateness
    /// they are `without_ms[0]`, and without its disturbance `without_ms[1]`.
    fn said_of_link(
        (full_share, carried_bit_per_s): (f64, Option<u64>),
        wakeup_ms: u64,
        without_ms: [u64; 2],
    ) -> [Vec<String>; 2] {
        let recipe = parse_with(RECIPE, StationMode::Real, &NoFiles).unwrap();
        let plan = recipe.plan(recipe.default_profile(), 1).unwrap();
        let health = Health {
            links: vec![LinkThreadHealth {
                hop: 1,
                fast: false,
                full: Duration::ZERO,
                carried_bit_per_s,
            }],
            ..squall_made::health()
        };
        let link = LinkThreadEvidence {
            hop: 1,
            wakeup: Lateness {
                p99: Duration::from_millis(wakeup_ms),
                ..Lateness::default()
            },
            scheduling: Scheduling::Fifo,
            offload_crossings: None,
        };
        let times = |ms| [Duration::from_millis(ms); 3];
        let evidence = Evidence {
            trial: &plan.trials[0],
            health: &health,
            used: &squall_made::effective_settings(),
            links: &[link],
            response: &ResponseTimes {
                response: times(100),
                without_own: times(without_ms[0]),
                without_disturbance: times(without_ms[1]),
                full_shares: vec![full_share],
            },
            is_silent: true,
            times_late: Duration::ZERO,
            has_awake_processors: false,
            machine_errors: &BTreeMap::new(),
            listen_dropped: 0,
            faults: &[],
            hops: &[],
            answered: 10,
        };
        let mut found = Objections::default();
        judge_links(&evidence, &mut found);
        assert!(found.reasons.is_empty(), "{found:?}");
        [found.doubts, found.limits]
    }

    #[test]
    fn link_is_the_bottleneck_if_its_thread_is_mostly_busy_or_late_only_while_busy() {
        let carried = Some(2_340_000_000);
        for (full, wakeup_ms, without_ms) in [
            // Full for at least nine tenths of all response times, whether late or not.
            ((0.9, carried), 0, [100, 100]),
            ((0.95, carried), 1, [100, 100]),
            ((0.95, carried), 1, [50, 50]),
            // Late, but only lateness while the processor was full changed response times.
            ((0.3, carried), 1, [50, 100]),
        ] {
            let [doubts, limits] = said_of_link(full, wakeup_ms, without_ms);
            assert!(doubts.is_empty(), "{full:?}: {doubts:?}");
            assert_eq!(limits, [limit(2_340_000_000)], "{full:?}");
        }
        for (full, wakeup_ms, without_ms, is_doubtful) in [
            ((0.89, carried), 0, [100, 100], false),
            ((0.1, None), 1, [100, 100], false),
            ((0.3, carried), 1, [50, 50], true),
            ((0.0, None), 1, [50, 50], true),
        ] {
            let [doubts, limits] = said_of_link(full, wakeup_ms, without_ms);
            assert!(limits.is_empty(), "{full:?}: {limits:?}");
            let is_late = |said: &String| said.contains("woke up late: p99 1.000 ms");
            assert!(doubts.iter().all(is_late), "{full:?}: {doubts:?}");
            assert_eq!(!doubts.is_empty(), is_doubtful, "{full:?}: {doubts:?}");
        }
    }

    #[test]
    fn trial_is_doubtful_only_if_nothing_but_known_lateness_disturbed_it() {
        let said = |text: &str| vec![text.to_owned()];
        let late = || Objections {
            doubts: said("late"),
            ..Objections::default()
        };
        let doubtful = late().validity(true);
        assert_eq!(
            doubtful,
            Validity::Doubtful {
                reasons: said("late")
            }
        );
        assert!(doubtful.is_disturbed() && !doubtful.is_invalid());
        let lost = Objections {
            reasons: said("lost"),
            ..late()
        };
        assert_eq!(
            lost.validity(true),
            Validity::Invalid {
                reasons: vec!["lost".to_owned(), "late".to_owned()]
            }
        );
        let full = Objections {
            limits: said("full"),
            ..late()
        };
        assert!(full.validity(true).is_invalid());
        assert!(late().validity(false).is_invalid());
        assert_eq!(Objections::default().validity(false), Validity::Valid);
    }

    fn counts(protocols: &[(&str, u64)]) -> BTreeMap<String, u64> {
        let count = |(name, count): &(&str, u64)| ((*name).to_owned(), *count);
        protocols.iter().map(count).collect()
    }

    /// The reasons against a hop between two programs.
    fn reasons(protocol: Protocol, spoken: &[(&str, u64)], alpn: &[(&str, u64)]) -> Vec<String> {
        let hop = HopRecord {
            hop: 2,
            protocol,
            client: None,
            server: None,
            wire: Some(WireCounts {
                protocols: counts(spoken),
                unread_alpn: counts(alpn),
                ..WireCounts::default()
            }),
        };
        let mut reasons = Vec::new();
        judge_protocols(&hop, &mut reasons);
        judge_silence(&hop, 1, &mut reasons);
        reasons
    }

    #[test]
    fn protocol_seen_in_packets_must_fit_the_hop() {
        assert!(reasons(Protocol::H2c, &[("h2c", 3)], &[]).is_empty());
        assert!(reasons(Protocol::H2, &[("tls", 3)], &[("h2,http/1.1", 3)]).is_empty());
        assert!(reasons(Protocol::H1s, &[("tls", 3), ("h1s", 1)], &[("", 3)]).is_empty());
        assert!(reasons(Protocol::H3, &[("quic", 3)], &[]).is_empty());
        for (protocol, spoken) in [
            (Protocol::H2c, "h1"),
            (Protocol::H2, "h1s"),
            (Protocol::H2, "h2c"),
            (Protocol::H1, "tls"),
            (Protocol::H2c, "tls"),
            (Protocol::H3, "tls"),
            (Protocol::H1, "other"),
            (Protocol::H2, "quic"),
        ] {
            let expected = format!(
                "3 connections of hop 2 spoke {spoken}, not {protocol}, according to its packets"
            );
            assert_eq!(reasons(protocol, &[(spoken, 3)], &[]), [expected]);
        }
        let offered = reasons(Protocol::H2, &[("tls", 2)], &[("http/1.1", 2)]);
        assert!(offered[0].contains("offered \"http/1.1\""), "{offered:?}");
    }

    #[test]
    fn trial_is_invalid_if_a_link_clock_starts_after_the_load() {
        let said = |late| {
            let mut reasons = Vec::new();
            judge_start(late, &mut reasons);
            reasons
        };
        assert_eq!(said(Duration::ZERO), [""; 0]);
        assert_eq!(
            said(Duration::from_micros(1_500)),
            ["the link's schedule, blackouts, weather and traces began 1.500 ms after the load"]
        );
    }

    #[test]
    fn trial_is_invalid_if_a_full_queue_turned_connections_away() {
        let said = |dropped| {
            let mut reasons = Vec::new();
            judge_listening(dropped, &mut reasons);
            reasons
        };
        assert_eq!(said(0), [""; 0]);
        assert_eq!(
            said(3),
            [
                "the kernel turned 3 connections away from the queue of a listening socket (net.core.somaxconn)"
            ]
        );
    }

    #[test]
    fn warning_about_a_full_link_names_its_rate_and_suggests_a_limit() {
        assert_eq!(
            limit(2_340_000_000),
            "the link's thread had no processor time left, so the emulated path carries 2.34 Gbit/s here: set `rate`"
        );
        assert_eq!(bits_in_words(655_000_000), "655.0 Mbit/s");
    }

    #[test]
    fn silent_hop_with_answered_requests_is_reported() {
        let said = reasons(Protocol::H1, &[], &[]);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("no HTTP was seen on hop 2"), "{said:?}");
    }
}

//! Paths of several hops: what each hop's time was spent on, and what a request's total time was spent on.
//!
//! The hop across the link is attributed by the same code as a path of one hop, with the marks of that hop's exchange in
//! place of the request's. Hops inside hosts are attributed from marks and frames alone (`marks`). The time that a hop's
//! client waited for its server is what the hops behind it took: `nest` lays their time over it, so that the total adds up
//! to the request's time and nothing counts twice. `join` finds which exchanges belong to a request, by the `traceparent`
//! that it carries. If nothing was seen on a hop, nothing is guessed.

mod join;
mod marks;
mod nest;

use std::collections::{BTreeMap, BTreeSet};

use squall_base::plan::{Hop, Implementation, ProgramSetting, Station, Variant};
use squall_base::record::{
    Cause, CauseSpans, CausesRecord, DropRecord, FrameLayer, FrameRecord, PacketRef, Side, Way,
};

use super::columns::{ExchangeCells, PacketCells, RequestCells, SocketCells};
use super::course::{self, Course, Detail, HopCourse, ServerTimes, Stage};
use super::frames;
use super::intake::{Inputs, RequestMarks};
use super::queue::{Occupancy, QueueShares, Slices};
use super::walk::Span;
use super::{Attribution, follow};
use join::{HopRows, Leg};

/// What attribution knows of a path before it sees a row.
#[derive(Clone, Debug)]
pub struct PathShape {
    hops: Vec<HopShape>,
    /// Position of the hop across the link.
    link: usize,
    /// Whether the load generator is ours. Another one reports when its requests ended, but not what they waited for.
    is_client_ours: bool,
    /// Whether packets were seen at one point between both sides; each flow is then a connection.
    is_captured: bool,
}

#[derive(Clone, Copy, Debug)]
struct HopShape {
    /// QUIC: the limits, of a stream and of the connection, with which each side began to send. Those that a program
    /// announces are known if both were configured.
    limits_bytes: [Option<(u64, u64)>; 2],
    /// The sides whose rows were derived from packets.
    is_observed: [bool; 2],
    /// The sides whose congestion control paces.
    paces: [bool; 2],
}

/// The kernel's congestion control that paces by itself.
const BBR: &str = "bbr";

impl HopShape {
    fn of(hop: &Hop, is_observed: [bool; 2], announced: [Option<(u64, u64)>; 2]) -> HopShape {
        let windows = [&hop.server.http3, &hop.client.http3];
        HopShape {
            limits_bytes: [0, 1].map(|sender| {
                let (windows, announcer) = (windows[sender], 1 - sender);
                let limits = (windows.stream_window.get(), windows.connection_window.get());
                if is_observed[announcer] {
                    announced[announcer]
                } else {
                    Some(limits)
                }
            }),
            is_observed,
            paces: [&hop.client, &hop.server].map(|side| side.tcp.congestion_control == BBR),
        }
    }
}

/// The limits, of a stream and of the connection, that a program was configured to announce as this side of a hop.
fn announced_limits(station: Option<&Station>, side: Side) -> Option<(u64, u64)> {
    let announced = |setting: ProgramSetting| {
        let mut settings = station?.asked.settings.iter();
        let asked = settings.find(|asked| asked.side == side && asked.setting == setting);
        asked.map(|asked| asked.value)
    };
    announced(ProgramSetting::StreamWindow).zip(announced(ProgramSetting::ConnectionWindow))
}

impl PathShape {
    /// The path of a variant.
    pub fn of(variant: &Variant) -> PathShape {
        let is_ours = |place: usize| {
            let station = variant.stations.get(place);
            station.is_some_and(|station| station.runs == Implementation::Embedded)
        };
        let hops = variant.hops.iter().enumerate();
        PathShape {
            hops: hops
                .map(|(place, hop)| {
                    let ends = [(place, Side::Client), (place + 1, Side::Server)];
                    HopShape::of(
                        hop,
                        ends.map(|(place, _)| !is_ours(place)),
                        ends.map(|(place, side)| {
                            announced_limits(variant.stations.get(place), side)
                        }),
                    )
                })
                .collect(),
            link: usize::from(variant.link_hop().0) - 1,
            is_client_ours: is_ours(0),
            is_captured: false,
        }
    }

    /// One hop across the link between our own stations.
    pub fn direct(hop: &Hop) -> PathShape {
        PathShape {
            hops: vec![HopShape::of(hop, [false; 2], [None; 2])],
            link: 0,
            is_client_ours: true,
            is_captured: false,
        }
    }

    /// One hop between third-party stations. Everything was derived from packets, the requests too.
    pub(crate) fn captured() -> PathShape {
        let hop = HopShape {
            limits_bytes: [None; 2],
            is_observed: [true; 2],
            paces: [false; 2],
        };
        PathShape {
            hops: vec![hop],
            link: 0,
            is_client_ours: true,
            is_captured: true,
        }
    }

    /// How many hops it has.
    pub fn hops(&self) -> usize {
        self.hops.len()
    }

    fn is_several(&self) -> bool {
        self.hops.len() > 1
    }
}

/// All records of a trial over a path of any number of hops.
#[derive(Debug)]
pub struct PathInputs {
    shape: PathShape,
    /// The records of the hop across the link.
    link: Inputs,
    /// With several hops: all requests, and the rows in which their exchanges are found.
    requests: Vec<RequestMarks>,
    hops: Vec<HopRows>,
    /// If the hop across the link is not the first: its client's exchanges, until it is known which belong to requests.
    link_exchanges: Vec<ExchangeCells>,
}

impl PathInputs {
    /// Without records.
    pub fn new(shape: PathShape) -> PathInputs {
        let mut link = Inputs::new();
        if shape.is_captured {
            link.capture();
        }
        let link_hop = &shape.hops[shape.link];
        for side in Side::ALL {
            if let Some((stream, connection)) = link_hop.limits_bytes[side as usize] {
                link.begin_quic_windows(side, stream, connection);
            }
        }
        for side in Side::ALL {
            if link_hop.is_observed[side as usize] {
                link.observe(side);
            }
            if link_hop.paces[side as usize] {
                link.pace(side);
            }
        }
        PathInputs {
            link,
            requests: Vec::new(),
            hops: shape.hops.iter().map(|_| HopRows::default()).collect(),
            link_exchanges: Vec::new(),
            shape,
        }
    }

    /// Takes a row of requests.parquet.
    pub fn add_request(&mut self, row: impl Into<RequestCells>) {
        let row = row.into();
        if self.shape.is_several() || !self.shape.is_client_ours {
            self.requests.push(RequestMarks::of(&row));
        }
        if !self.shape.is_several() && self.shape.is_client_ours {
            self.link.add_request(row);
        }
    }

    /// Takes a row of exchanges.parquet.
    pub fn add_exchange(&mut self, row: impl Into<ExchangeCells>) {
        let row = row.into();
        let place = usize::from(row.hop).wrapping_sub(1);
        if self.shape.is_several()
            && let Some(hop) = self.hops.get_mut(place)
        {
            hop.add(&row);
        }
        if place == self.shape.link {
            let is_later = place > 0 && row.side == Side::Client;
            match is_later {
                true if row.request.is_some() => self.link_exchanges.push(row),
                true => {}
                false => self.link.take_exchange(&row),
            }
        }
    }

    /// Whether frames of a direction, layer and type are of any use: others may be left out.
    pub fn wanted_frames(&self) -> impl Fn(Way, FrameLayer, u64) -> bool + use<> {
        let is_several = self.shape.is_several();
        move |way, layer, kind| is_several || frames::is_wanted(way, layer, kind)
    }

    /// Takes a row of frames.parquet.
    pub fn add_frame(&mut self, row: &FrameRecord) {
        let place = usize::from(row.hop).wrapping_sub(1);
        if place == self.shape.link {
            self.link.add_frame(row);
        } else if let (Some(hop), Some(shape)) =
            (self.hops.get_mut(place), self.shape.hops.get(place))
        {
            hop.add_frame(row, shape.limits_bytes[row.side as usize]);
        }
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: impl Into<PacketCells>) {
        self.link.add_packet(row);
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: impl Into<SocketCells>) {
        let row = row.into();
        if usize::from(row.hop) == self.shape.link + 1 {
            self.link.add_socket(row);
        }
    }
}

/// The requests whose courses are wanted.
#[derive(Clone, Copy)]
enum RequestSelection<'a> {
    All,
    Only(&'a BTreeSet<u64>),
}

impl RequestSelection<'_> {
    fn contains(self, request: u64) -> bool {
        match self {
            RequestSelection::All => true,
            RequestSelection::Only(requests) => requests.contains(&request),
        }
    }
}

/// Attributes all of a trial's response times to causes, over any path.
///
/// The spans of each row in total add up to the request's `end - intended` exactly. Those of a hop's row add up to the time
/// from when its client side could begin the exchange until it was over. Time and memory grow with the records.
pub fn attribute_path(inputs: PathInputs) -> Attribution {
    if !inputs.shape.is_several() && inputs.shape.is_client_ours {
        return super::attribute(inputs.link);
    }
    attribute_nested(inputs, RequestSelection::All, Detail::Stages, |_| {})
}

/// The causes of some of the requests, with their courses, in the order in which the requests were added. On a path of
/// several hops, drops list no other victims than these.
pub fn follow_path(
    inputs: PathInputs,
    requests: &BTreeSet<u64>,
    detail: Detail<'_>,
) -> (Attribution, Vec<Course>) {
    if !inputs.shape.is_several() && inputs.shape.is_client_ours {
        let (mut attribution, courses) = follow(inputs.link, requests, detail);
        let rows = attribution.causes.iter();
        attribution.causes = rows.filter(|row| requests.contains(&row.request)).collect();
        return (attribution, courses);
    }
    let mut courses = Vec::new();
    let wanted = RequestSelection::Only(requests);
    let attribution = attribute_nested(inputs, wanted, detail, |course| courses.push(course));
    (attribution, courses)
}

/// The results for the hop across the link: the courses of its exchanges by request, and the packet that cost each the
/// most.
struct LinkResults {
    courses: BTreeMap<u64, Course>,
    responsible: BTreeMap<u64, PacketRef>,
    drops: Vec<DropRecord>,
}

fn attribute_nested(
    mut inputs: PathInputs,
    wanted: RequestSelection<'_>,
    detail: Detail<'_>,
    mut on_course: impl FnMut(Course),
) -> Attribution {
    inputs.hops.iter_mut().for_each(HopRows::sort);
    let legs: Vec<(RequestMarks, Vec<Option<Leg>>)> = std::mem::take(&mut inputs.requests)
        .into_iter()
        .map(|marks| {
            let legs = if inputs.shape.is_client_ours {
                join::legs(&marks, &inputs.hops, |place| {
                    !inputs.shape.hops[place].is_observed[Side::Client as usize]
                })
            } else {
                vec![None; inputs.hops.len()]
            };
            (marks, legs)
        })
        .collect();
    let mut link_results = attribute_link_hop(&mut inputs, &legs, wanted, detail);
    let mut attribution = Attribution {
        drops: std::mem::take(&mut link_results.drops),
        ..Attribution::default()
    };
    let queues = queue_shares(&legs, &link_results, &inputs);
    for (marks, legs) in &legs {
        if !wanted.contains(marks.request) {
            continue;
        }
        let course = link_results.courses.remove(&marks.request);
        let responsible = link_results.responsible.get(&marks.request).copied();
        let path = RequestHops::new(marks, legs, course.as_ref(), &inputs);
        let stages = path.total_stages();
        attribution.causes.push(CausesRecord {
            request: marks.request,
            hop: CausesRecord::IN_TOTAL,
            spans: spans(&stages),
            queue_roots: path.queue_roots(&stages, &queues),
            responsible,
        });
        for (place, own) in path.stages.iter().enumerate() {
            attribution.hops.push(CausesRecord {
                request: marks.request,
                hop: place as u8 + 1,
                spans: spans(own),
                queue_roots: path.queue_roots(own, &queues),
                responsible: responsible.filter(|_| place == inputs.shape.link),
            });
        }
        on_course(path.course(stages, course));
    }
    attribution.hops.sort_by_key(|row| row.hop);
    attribution
}

/// Whether any request waited for a connection or stream on any hop.
fn has_queue(legs: &[(RequestMarks, Vec<Option<Leg>>)]) -> bool {
    let mut all = legs.iter().flat_map(|(_, legs)| legs.iter().flatten());
    all.any(|leg| leg.marks.queued().is_some())
}

/// What the queue of each hop waited for, from moment to moment; empty if no request waited in one.
fn queue_shares(
    legs: &[(RequestMarks, Vec<Option<Leg>>)],
    link_results: &LinkResults,
    inputs: &PathInputs,
) -> Vec<QueueShares> {
    if !has_queue(legs) {
        return Vec::new();
    }
    let begin = legs
        .iter()
        .map(|(marks, _)| marks.intended.as_nanos())
        .min();
    let end = legs.iter().map(|(marks, _)| marks.end.as_nanos()).max();
    let slices = Slices::of(Span {
        from: begin.unwrap_or(0),
        to: end.unwrap_or(0),
    });
    let mut hops: Vec<Occupancy> = inputs.hops.iter().map(|_| Occupancy::new(slices)).collect();
    for (marks, legs) in legs {
        let course = link_results.courses.get(&marks.request);
        let path = RequestHops::new(marks, legs, course, inputs);
        path.visit_from_last_hop(|place, stages| path.occupy(place, stages, &mut hops[place]));
    }
    let mut shares: Vec<QueueShares> = Vec::new();
    for occupancy in hops.iter().rev() {
        shares.push(occupancy.shares(shares.last()));
    }
    shares.reverse();
    shares
}

/// Attributes the hop across the link, as if it were the only one.
fn attribute_link_hop(
    inputs: &mut PathInputs,
    legs: &[(RequestMarks, Vec<Option<Leg>>)],
    wanted: RequestSelection<'_>,
    detail: Detail<'_>,
) -> LinkResults {
    let place = inputs.shape.link;
    let mut link = std::mem::take(&mut inputs.link);
    let mut of_request = BTreeMap::new();
    for (marks, legs) in legs {
        if let Some(leg) = &legs[place] {
            let behind = legs.get(place + 1).and_then(Option::as_ref);
            link.add_marks(RequestMarks {
                relayed: behind.and_then(|behind| behind.answered),
                ..leg.marks.clone()
            });
            of_request.insert(marks.request, leg.connection_and_stream());
        }
    }
    if place > 0 {
        // Of several attempts only the last belongs to the request.
        for row in std::mem::take(&mut inputs.link_exchanges) {
            let on = row.request.and_then(|request| of_request.get(&request));
            if on == Some(&(row.connection, row.stream)) {
                link.take_exchange(&row);
            }
        }
    }
    let all = legs.iter().map(|(marks, _)| marks.request);
    // What a queue waited for depends on all requests that were ahead.
    let has_queue = has_queue(legs);
    let watched: BTreeSet<u64> = all
        .filter(|request| has_queue || wanted.contains(*request))
        .collect();
    let (attribution, courses) = follow(link, &watched, detail);
    let rows = attribution.causes.iter();
    LinkResults {
        courses: courses.into_iter().map(|it| (it.request, it)).collect(),
        responsible: rows
            .filter_map(|row| Some((row.request, row.responsible?)))
            .collect(),
        drops: attribution.drops,
    }
}

/// A request on all hops.
struct RequestHops<'a> {
    marks: &'a RequestMarks,
    legs: &'a [Option<Leg>],
    /// What each hop's own time was spent on; empty if it had no time.
    stages: Vec<Vec<Stage>>,
}

impl<'a> RequestHops<'a> {
    fn new(
        marks: &'a RequestMarks,
        legs: &'a [Option<Leg>],
        link_course: Option<&Course>,
        inputs: &PathInputs,
    ) -> RequestHops<'a> {
        let mut stages: Vec<Vec<Stage>> = Vec::with_capacity(legs.len());
        for (place, leg) in legs.iter().enumerate() {
            let own = match (leg, link_course) {
                (Some(_), Some(course)) if place == inputs.shape.link => course.stages.clone(),
                (Some(leg), _) => marks::stages(leg, &inputs.hops[place]),
                (None, _) if place == 0 => nest::whole(marks.intended, marks.end, Cause::Unknown),
                (None, _) => {
                    let behind = legs[place + 1..].iter().flatten().next();
                    nest::unseen(&stages[place - 1], behind.map(Leg::span))
                }
            };
            stages.push(own);
        }
        RequestHops {
            marks,
            legs,
            stages,
        }
    }

    /// What the request's total time was spent on.
    fn total_stages(&self) -> Vec<Stage> {
        self.visit_from_last_hop(|_, _| {})
    }

    /// What the time of a hop and of all hops behind it was spent on, passed to `show` for each hop from the last on.
    /// Returns that of the first hop.
    fn visit_from_last_hop(&self, mut show: impl FnMut(usize, &[Stage])) -> Vec<Stage> {
        let mut behind: Vec<Stage> = Vec::new();
        for (place, own) in self.stages.iter().enumerate().rev() {
            behind = if place + 1 == self.stages.len() {
                own.clone()
            } else {
                let before = match &self.legs[place + 1] {
                    // The time of an earlier attempt is not the proxy's own work.
                    Some(leg) if leg.is_repeated => Cause::Unknown,
                    _ => Cause::Host,
                };
                nest::laid_over(own, &behind, before)
            };
            show(place, &behind);
        }
        behind
    }

    /// Records what it did once it had a connection or stream of a hop.
    fn occupy(&self, place: usize, stages: &[Stage], occupancy: &mut Occupancy) {
        let Some(slot) = self.legs[place].as_ref().and_then(|leg| leg.marks.slot) else {
            return;
        };
        for stage in stages {
            let (from, to) = (stage.from.as_nanos().max(slot), stage.to.as_nanos());
            occupancy.add(Span { from, to }, stage.cause);
        }
    }

    /// What the queues among these stages waited for.
    fn queue_roots(&self, stages: &[Stage], queues: &[QueueShares]) -> CauseSpans {
        let mut roots = CauseSpans::NONE;
        for stage in stages.iter().filter(|stage| stage.cause == Cause::Queue) {
            let (from, to) = (stage.from.as_nanos(), stage.to.as_nanos());
            // Of several queues, that of the farthest hop counts: its time is laid over the others'.
            let is_it = |leg: &Option<Leg>| {
                let queued = leg.as_ref().and_then(|leg| leg.marks.queued());
                queued.is_some_and(|it| it.from <= from && to <= it.to)
            };
            let place = self.legs.iter().rposition(is_it);
            match place.and_then(|place| queues.get(place)) {
                Some(shares) => roots = roots.plus(&shares.of(Span { from, to })),
                None => roots[Cause::Queue] = roots[Cause::Queue] + stage.to.since(stage.from),
            }
        }
        roots
    }

    fn course(&self, stages: Vec<Stage>, link_course: Option<Course>) -> Course {
        let hops = self.stages.iter().zip(self.legs).zip(1..);
        let hops = hops.map(|((stages, leg), hop)| HopCourse {
            hop,
            is_joined: leg.is_some(),
            connection: leg.as_ref().and_then(|leg| leg.marks.connection),
            stream: leg.as_ref().and_then(|leg| leg.marks.stream),
            server: leg.as_ref().and_then(Leg::server_times),
            stages: stages.clone(),
        });
        let (up, down) = match link_course {
            Some(course) => (course.up, course.down),
            None => (None, None),
        };
        Course {
            request: self.marks.request,
            stages,
            server: self.legs[0].as_ref().and_then(Leg::server_times),
            up,
            down,
            hops: hops.collect(),
        }
    }
}

fn spans(stages: &[Stage]) -> CauseSpans {
    let mut spans = CauseSpans::default();
    for stage in stages {
        spans[stage.cause] = spans[stage.cause] + stage.to.since(stage.from);
    }
    spans
}

//! Paths of several hops: what each hop's time was spent on, and what a request's total time was spent on.
//!
//! A hop across a link is attributed by the same code as a path of one hop, with the packets of its own link and with
//! the marks of that hop's exchange in place of the request's. Hops inside hosts are attributed from marks and frames
//! alone (`marks`). The time that a hop's client waited for its server is what the hops behind it took: `nest` lays
//! their time over it, so that the total adds up to the request's time and nothing counts twice. `join` finds which
//! exchanges belong to a request, by the `traceparent` that it carries. If nothing was seen on a hop, nothing is
//! guessed.

mod join;
mod marks;
mod nest;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use squall_base::Time;
use squall_base::plan::{Hop, Implementation, ProgramSetting, Station, Variant};
use squall_base::record::{
    Cause, CauseSpans, CausesRecord, DropRecord, FrameLayer, FrameRecord, PacketRecord, PacketRef,
    Side, Way,
};

use super::columns::{ExchangeCells, PacketCells, RequestCells, SocketCells};
use super::course::{Course, Detail, HopCourse, Stage, spans_of};
use super::frames;
use super::intake::Inputs;
use super::near::PathConnections;
use super::queue::{Occupancy, QueueShares, Slices};
use super::request_marks::RequestMarks;
use super::trace::ConnectionTrace;
use super::walk::Span;
use super::{Attribution, follow};
use join::{HopRows, Leg};

/// What attribution knows of a path before it sees a row.
#[derive(Clone, Debug)]
pub struct PathShape {
    hops: Vec<HopShape>,
    /// Whether the load generator is ours. Another one reports when its requests ended, but not what they waited for.
    is_client_ours: bool,
    /// Whether packets were seen at one point between both sides; each flow is then a connection.
    is_captured: bool,
}

#[derive(Clone, Copy, Debug)]
struct HopShape {
    /// Whether it crosses a link, whose packets were recorded.
    across_link: bool,
    /// QUIC: the limits, of a stream and of the connection, with which each side began to send. Those that a third-party
    /// program announces are known only if both were configured.
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
            across_link: hop.across_link,
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
            paces: [&hop.client, &hop.server]
                .map(|side| side.tcp.congestion_control.as_deref() == Some(BBR)),
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
            is_client_ours: is_ours(0),
            is_captured: false,
        }
    }

    /// One hop across the link between our own stations.
    pub fn direct(hop: &Hop) -> PathShape {
        PathShape {
            hops: vec![HopShape::of(hop, [false; 2], [None; 2])],
            is_client_ours: true,
            is_captured: false,
        }
    }

    /// One hop between third-party stations. Everything was derived from packets, even the requests.
    pub(crate) fn captured() -> PathShape {
        let hop = HopShape {
            across_link: true,
            limits_bytes: [None; 2],
            is_observed: [true; 2],
            paces: [false; 2],
        };
        PathShape {
            hops: vec![hop],
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

    /// The numbers of the hops across links, from 1.
    pub(crate) fn link_hops(&self) -> impl Iterator<Item = u8> {
        let hops = (1..).zip(&self.hops);
        hops.filter(|(_, hop)| hop.across_link)
            .map(|(number, _)| number)
    }

    /// Empty inputs for each hop across a link.
    fn links(&self) -> Vec<Option<LinkInputs>> {
        let link = |hop: &HopShape| {
            let mut inputs = Inputs::new();
            inputs.quic_windows = hop.limits_bytes;
            inputs.is_observed = hop.is_observed;
            inputs.paces = hop.paces;
            inputs.is_captured = self.is_captured;
            LinkInputs {
                inputs,
                exchanges: Vec::new(),
            }
        };
        let hops = self.hops.iter();
        hops.map(|hop| hop.across_link.then(|| link(hop))).collect()
    }
}

#[derive(Debug)]
struct LinkInputs {
    inputs: Inputs,
    /// If the hop is not the first: its client's exchanges, until it is known which belong to requests.
    exchanges: Vec<ExchangeCells>,
}

/// All records of a trial over a path of any number of hops.
#[derive(Debug)]
pub struct PathInputs {
    shape: PathShape,
    /// The records of each hop that crosses a link.
    links: Vec<Option<LinkInputs>>,
    /// With several hops: all requests, and the rows in which their exchanges are found.
    requests: Vec<RequestMarks>,
    hops: Vec<HopRows>,
}

impl PathInputs {
    /// Inputs without records.
    pub fn new(shape: PathShape) -> PathInputs {
        PathInputs {
            links: shape.links(),
            requests: Vec::new(),
            hops: shape.hops.iter().map(|_| HopRows::default()).collect(),
            shape,
        }
    }

    /// Inputs that take only records from `from` on, and only those of the connections in `numbers`, which has each
    /// connection's hop and the number that the hop's client gave it. `all` has the connections of the trial.
    pub fn near(
        shape: PathShape,
        all: &PathConnections,
        numbers: &BTreeSet<(u8, u32)>,
        from: Time,
    ) -> PathInputs {
        let mut inputs = PathInputs::new(shape);
        for (hop, link) in (1..).zip(&mut inputs.links) {
            if let Some(link) = link {
                link.inputs.near = Some(all.near(hop, numbers, from));
            }
        }
        inputs
    }

    /// The records of the link that the hop of this number crosses; `None` if it crosses none.
    fn link(&mut self, hop: u8) -> Option<&mut LinkInputs> {
        let place = usize::from(hop).checked_sub(1)?;
        self.links.get_mut(place)?.as_mut()
    }

    /// The records of a path of one hop.
    fn into_only_link(self) -> Inputs {
        let mut links = self.links.into_iter().flatten();
        links.next().map_or_else(Inputs::new, |link| link.inputs)
    }

    /// Takes a row of requests.parquet.
    pub fn add_request(&mut self, row: impl Into<RequestCells>) {
        let row = row.into();
        if self.shape.is_several() || !self.shape.is_client_ours {
            self.requests.push(RequestMarks::of(&row));
        }
        if !self.shape.is_several()
            && self.shape.is_client_ours
            && let Some(link) = self.link(1)
        {
            link.inputs.add_request(row);
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
        if let Some(link) = self.link(row.hop) {
            let is_later = place > 0 && row.side == Side::Client;
            match is_later {
                true if row.request.is_some() => link.exchanges.push(row),
                true => {}
                false => link.inputs.take_exchange(&row),
            }
        }
    }

    /// Tells whether frames of a direction, layer and type are needed; others may be left out.
    pub fn wanted_frames(&self) -> impl Fn(Way, FrameLayer, u64) -> bool + use<> {
        let is_several = self.shape.is_several();
        move |way, layer, kind| is_several || frames::is_wanted(way, layer, kind)
    }

    /// Takes a row of frames.parquet.
    pub fn add_frame(&mut self, row: &FrameRecord) {
        let place = usize::from(row.hop).wrapping_sub(1);
        if let Some(link) = self.link(row.hop) {
            link.inputs.add_frame(row);
        } else if let (Some(hop), Some(shape)) =
            (self.hops.get_mut(place), self.shape.hops.get(place))
        {
            hop.add_frame(row, shape.limits_bytes[row.side as usize]);
        }
    }

    /// Takes a row of packets.parquet.
    pub fn add_packet(&mut self, row: impl Into<PacketCells>) {
        let row = self.on_its_link(row.into());
        if let Some(link) = self.link(row.hop) {
            link.inputs.add_packet(row);
        }
    }

    /// Takes a row of packets.parquet only to learn when connections began.
    pub(super) fn add_beginning(&mut self, row: PacketCells) {
        let row = self.on_its_link(row);
        if let Some(link) = self.link(row.hop) {
            link.inputs.add_beginning(&row);
        }
    }

    /// The packet with the hop of its link. On a path with only one link, packets may not name it.
    fn on_its_link(&self, mut row: PacketCells) -> PacketCells {
        if row.hop == PacketRecord::ONLY_LINK {
            row.hop = self.shape.link_hops().next().unwrap_or(row.hop);
        }
        row
    }

    /// Takes a frame that a side sent over QUIC, only to learn when its connection sent its first one.
    pub(super) fn add_first_sent(&mut self, hop: u8, side: Side, connection: u32, time: Time) {
        if let Some(link) = self.link(hop) {
            let time = time.as_nanos();
            link.inputs.add_first_sent(side, connection, time);
        }
    }

    /// The records of each hop that crosses a link.
    pub(super) fn into_links(self) -> Vec<Option<Inputs>> {
        let links = self.links.into_iter();
        links.map(|link| Some(link?.inputs)).collect()
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: impl Into<SocketCells>) {
        let row = row.into();
        if let Some(link) = self.link(row.hop) {
            link.inputs.add_socket(row);
        }
    }
}

/// Attributes all of a trial's response times to causes, over any path.
///
/// The spans of each row in total add up to the request's `end - intended` exactly. Those of a hop's row add up to the time
/// from when its client side could begin the exchange until it was over. Time and memory grow with the records.
pub fn attribute_path(inputs: PathInputs) -> Attribution {
    if !inputs.shape.is_several() && inputs.shape.is_client_ours {
        return super::attribute(inputs.into_only_link());
    }
    attribute_nested(inputs, None, Detail::Stages, |_| {})
}

/// The causes of some of the requests, with their courses, in the order in which the requests were added.
pub fn follow_path(
    inputs: PathInputs,
    requests: &BTreeSet<u64>,
    detail: Detail<'_>,
) -> (Attribution, Vec<Course>) {
    if !inputs.shape.is_several() && inputs.shape.is_client_ours {
        let (mut attribution, courses) = follow(inputs.into_only_link(), requests, detail);
        let rows = attribution.causes.iter();
        attribution.causes = rows.filter(|row| requests.contains(&row.request)).collect();
        return (attribution, courses);
    }
    let mut courses = Vec::new();
    let attribution = attribute_nested(inputs, Some(requests), detail, |it| courses.push(it));
    (attribution, courses)
}

/// The results for a hop across a link: the courses of its exchanges by request, and the packet that cost each the most,
/// with what it cost in nanoseconds.
struct LinkResults {
    courses: BTreeMap<u64, Course>,
    responsible: BTreeMap<u64, (u64, PacketRef)>,
    drops: Vec<DropRecord>,
    traces: Vec<ConnectionTrace>,
}

/// Attributes the requests in `wanted`, or all.
fn attribute_nested(
    mut inputs: PathInputs,
    wanted: Option<&BTreeSet<u64>>,
    detail: Detail<'_>,
    mut on_course: impl FnMut(Course),
) -> Attribution {
    let legs = legs(&mut inputs);
    let mut results: Vec<Option<LinkResults>> = Vec::new();
    for place in 0..inputs.hops.len() {
        let link = inputs.links[place].take();
        results.push(link.map(|link| attribute_link_hop(link, place, &legs, wanted, detail)));
    }
    let mut attribution = Attribution::default();
    for link in results.iter_mut().flatten() {
        attribution.drops.append(&mut link.drops);
        attribution.traces.append(&mut link.traces);
    }
    attribution
        .drops
        .sort_by_key(|row| (row.dropped_at, row.packet));
    let queues = queue_shares(&legs, &results, &inputs);
    for (marks, legs) in &legs {
        if wanted.is_some_and(|wanted| !wanted.contains(&marks.request)) {
            continue;
        }
        let take_course = |link: &mut Option<LinkResults>| {
            let courses = &mut link.as_mut()?.courses;
            courses.remove(&marks.request)
        };
        let courses: Vec<Option<Course>> = results.iter_mut().map(take_course).collect();
        let responsible = |link: &Option<LinkResults>| {
            let responsible = &link.as_ref()?.responsible;
            responsible.get(&marks.request).copied()
        };
        let of_hops: Vec<Option<(u64, PacketRef)>> = results.iter().map(responsible).collect();
        let path = RequestHops::new(marks, legs, |place| courses[place].as_ref(), &inputs);
        let stages = path.total_stages();
        attribution.causes.push(CausesRecord {
            request: marks.request,
            hop: CausesRecord::IN_TOTAL,
            spans: spans_of(&stages),
            queue_roots: path.queue_roots(&stages, &queues),
            responsible: costliest(&of_hops),
        });
        for (place, own) in path.stages.iter().enumerate() {
            attribution.hops.push(CausesRecord {
                request: marks.request,
                hop: place as u8 + 1,
                spans: spans_of(own),
                queue_roots: path.queue_roots(own, &queues),
                responsible: of_hops[place].map(|(_, packet)| packet),
            });
        }
        on_course(path.course(stages, courses));
    }
    attribution.hops.sort_by_key(|row| row.hop);
    attribution
}

/// The requests, each with its exchanges by hop.
fn legs(inputs: &mut PathInputs) -> Vec<(RequestMarks, Vec<Option<Leg>>)> {
    inputs.hops.iter_mut().for_each(HopRows::sort);
    let requests = std::mem::take(&mut inputs.requests).into_iter();
    requests
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
        .collect()
}

/// Of the packets that cost a request the most on each hop, the one that cost it the most of all; among equals, the first.
fn costliest(of_hops: &[Option<(u64, PacketRef)>]) -> Option<PacketRef> {
    let all = of_hops.iter().flatten();
    let most = all.min_by_key(|(cost, packet)| (Reverse(*cost), *packet))?;
    Some(most.1)
}

/// Whether any request waited for a connection or stream on any hop.
fn has_queue(legs: &[(RequestMarks, Vec<Option<Leg>>)]) -> bool {
    let mut all = legs.iter().flat_map(|(_, legs)| legs.iter().flatten());
    all.any(|leg| leg.marks.queued().is_some())
}

/// What the queue of each hop waited for, from moment to moment; empty if no request waited in one.
fn queue_shares(
    legs: &[(RequestMarks, Vec<Option<Leg>>)],
    results: &[Option<LinkResults>],
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
    let slices = Slices::of(Span::new(begin.unwrap_or(0), end.unwrap_or(0)));
    let mut hops: Vec<Occupancy> = inputs.hops.iter().map(|_| Occupancy::new(slices)).collect();
    for (marks, legs) in legs {
        let course = |place: usize| results[place].as_ref()?.courses.get(&marks.request);
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

/// Attributes the hop at this place, which crosses a link, as if it were the only one. Keeps the courses of the requests in
/// `wanted`, or of all.
fn attribute_link_hop(
    link: LinkInputs,
    place: usize,
    legs: &[(RequestMarks, Vec<Option<Leg>>)],
    wanted: Option<&BTreeSet<u64>>,
    detail: Detail<'_>,
) -> LinkResults {
    let mut inputs = link.inputs;
    let mut of_request = BTreeMap::new();
    for (marks, legs) in legs {
        if let Some(leg) = &legs[place] {
            let behind = legs.get(place + 1).and_then(Option::as_ref);
            inputs.add_marks(RequestMarks {
                relayed: behind.and_then(|behind| behind.answered),
                ..leg.marks.clone()
            });
            of_request.insert(marks.request, leg.connection_and_stream());
        }
    }
    // If there were several attempts, only the last belongs to the request.
    for row in link.exchanges {
        let on = row.request.and_then(|request| of_request.get(&request));
        if on == Some(&(row.connection, row.stream)) {
            inputs.take_exchange(&row);
        }
    }
    let all = legs.iter().map(|(marks, _)| marks.request);
    // What a queue waited for depends on all requests that were ahead, so if there is a queue, all are followed.
    let has_queue = has_queue(legs);
    let watched: BTreeSet<u64> = all
        .filter(|request| has_queue || wanted.is_none_or(|wanted| wanted.contains(request)))
        .collect();
    let (attribution, courses) = follow(inputs, &watched, detail);
    let responsible = responsible_packets(&attribution);
    let hop = place as u8 + 1;
    let traces = attribution.traces.into_iter();
    LinkResults {
        courses: courses.into_iter().map(|it| (it.request, it)).collect(),
        responsible,
        drops: attribution.drops,
        traces: traces.map(|it| ConnectionTrace { hop, ..it }).collect(),
    }
}

/// By request, the packet that cost it the most, and what it cost.
fn responsible_packets(attribution: &Attribution) -> BTreeMap<u64, (u64, PacketRef)> {
    let mut costs: BTreeMap<(u64, PacketRef), u64> = BTreeMap::new();
    for row in &attribution.drops {
        for victim in &row.victims {
            let cost = costs.entry((victim.request, row.packet)).or_default();
            *cost = cost.saturating_add(victim.delay.as_nanos());
        }
    }
    let cost = |of| costs.get(&of).copied().unwrap_or(0);
    let rows = attribution.causes.iter();
    rows.filter_map(|row| {
        let packet = row.responsible?;
        Some((row.request, (cost((row.request, packet)), packet)))
    })
    .collect()
}

struct RequestHops<'a> {
    marks: &'a RequestMarks,
    legs: &'a [Option<Leg>],
    /// What each hop's own time was spent on; empty if it had no time.
    stages: Vec<Vec<Stage>>,
}

impl<'a> RequestHops<'a> {
    /// `course` returns the course of its exchange on a hop across a link.
    fn new<'c>(
        marks: &'a RequestMarks,
        legs: &'a [Option<Leg>],
        course: impl Fn(usize) -> Option<&'c Course>,
        inputs: &PathInputs,
    ) -> RequestHops<'a> {
        let mut stages: Vec<Vec<Stage>> = Vec::with_capacity(legs.len());
        for (place, leg) in legs.iter().enumerate() {
            let own = match (leg, course(place)) {
                (Some(_), Some(course)) => course.stages.clone(),
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

    fn total_stages(&self) -> Vec<Stage> {
        self.visit_from_last_hop(|_, _| {})
    }

    /// Calls `show` for each hop, from the last to the first, with what the time of that hop and all later hops was spent
    /// on. Returns the stages of the first hop.
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

    /// Records what the request did once it had a connection or stream of a hop.
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
            // If several queues match, that of the farthest hop counts, because its time is laid over that of the others.
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

    /// The request's course over the path; `link_courses` are those of its exchanges on hops across links.
    fn course(&self, stages: Vec<Stage>, link_courses: Vec<Option<Course>>) -> Course {
        let legs = self.stages.iter().zip(self.legs);
        let mut passages = None;
        let mut hops = Vec::with_capacity(self.legs.len());
        for ((hop, (stages, leg)), link_course) in (1..).zip(legs).zip(link_courses) {
            let own = link_course.map(|course| (course.up, course.down));
            // The passages over the first link are the course's own.
            let (up, down) = match &passages {
                None => {
                    passages = own;
                    (None, None)
                }
                Some(_) => own.unwrap_or_default(),
            };
            hops.push(HopCourse {
                hop,
                is_joined: leg.is_some(),
                connection: leg.as_ref().and_then(|leg| leg.marks.connection),
                stream: leg.as_ref().and_then(|leg| leg.marks.stream),
                server: leg.as_ref().and_then(Leg::server_times),
                stages: stages.clone(),
                up,
                down,
            });
        }
        let (up, down) = passages.unwrap_or_default();
        Course {
            request: self.marks.request,
            stages,
            server: self.legs[0].as_ref().and_then(Leg::server_times),
            up,
            down,
            hops,
        }
    }
}

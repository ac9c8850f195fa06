//! One run of one variant of a load: its clients, each on its own thread, and their combined report.
//!
//! `screen` shows progress meanwhile; `tables` writes the records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_analysis::load::{
    BodySendLimits, LongestLag, MeasuredPhase, Punctuality, QuicLosses, SendLimits, TcpSendLimits,
    TcpTimes,
};
use squall_base::plan::{Connections, Stages, Warmup, Workload};
use squall_base::record::{RequestRecord, SideCounts};
use squall_base::{Duration, Rate, Time};
use squall_http::InboxOptions;
use squall_linux::machine::ProcessorTimes;
use squall_linux::stop::StopSignal;
use squall_load::{PageEnd, Share};
use squall_stations::LogSinks;
use squall_stations::client::{
    self, Client, ClientReport, ClientSettings, ClientSinks, Gauge, Observer, Spin, StartBarrier,
    Target,
};
use squall_stations::rows::RowSender;

use super::arguments::Arguments;
use super::failed_files::FailedFiles;
use super::plan::{Plan, RequestNames};
use super::result::LoadResult;
use super::screen::Screen;
use super::tables::{Epoch, FinalSums, Tables};
use crate::awake::{self, MeasurementKind};
use crate::client::spin::{self, SpinGrant};
use crate::client::{LinePrefix, VerbosePrinter};
use crate::command_line;
use crate::environment::RunBeginning;
use crate::key_log::KeyLog;
use crate::output::eprint;
use crate::pages;

/// Runs a variant once.
pub(super) fn run(
    arguments: &Arguments,
    plan: &Plan,
    name: &str,
    tag: Option<&str>,
    stop: &StopSignal,
) -> Result<LoadResult> {
    // Before the first connection, because it is measured too.
    let kind = measurement_kind(&plan.workload);
    let awake = awake::keep(arguments.amount.idle_processors, kind)?;
    let beginning = (arguments.outputs.report.is_some())
        .then(|| RunBeginning::now(awake.as_ref(), command_line::shown()));
    let epoch = Epoch::now();
    let (requests, log, tables) = begin_tables(arguments, plan, tag, epoch)?;
    if let Some(message) = spin(arguments, plan).message {
        eprint(format_args!("{message}\n"));
    }
    let keys = KeyLog::open(arguments.connection.key_log.as_deref())?;
    let log = LogSinks {
        key_log: keys.as_ref().map(KeyLog::sender),
        ..log
    };
    let (pages_sender, ended_pages) = std::sync::mpsc::channel();
    let mut places = start_barrier(plan);
    let own_place = places.pop().context("a place was made for this thread")?;
    let gauges: Vec<Arc<Gauge>> = (0..plan.threads).map(|_| Arc::default()).collect();
    let failed = StopSignal::new()?;
    let mut clients = Vec::new();
    for ((index, place), gauge) in (0..plan.threads).zip(places).zip(&gauges) {
        let share = Share::new(index, plan.threads).context("a share of the threads")?;
        let sinks = ClientSinks {
            log: log.clone(),
            observer: observer(arguments, plan, epoch),
            gauge: Some(gauge.clone()),
            start_barrier: Some(place),
            pages: Some(pages_sender.clone()),
            spare_time: Some(tables.spare_time.clone()),
            ..ClientSinks::new(requests.clone())
        };
        let settings = settings(arguments, plan, share);
        let client = Client::new(settings, sinks, failed.clone(), stop.clone())?
            .with_uploads(plan.uploads.clone())
            .with_causes();
        clients.push(start(client, failed.clone())?);
    }
    drop((requests, log, pages_sender));
    let start = own_place.wait();
    let lengths = lengths(&plan.workload);
    let begins = start.relative_to(epoch.time);
    let phase = measured_phase(&plan.workload, begins);
    tables.shared.begin(begins, phase);
    let screen = Screen::new(arguments, plan, name, (start, epoch), gauges, lengths);
    let before = ProcessorTimes::read();
    screen.watch(&clients, &tables.shared, stop);
    let reports = join(clients)?;
    let stolen = before.and_then(share_stolen_since);
    let failed_files = tables.shared.failed_files.clone();
    let sums = tables.finish()?;
    finish_keys(keys, arguments, &failed_files);
    failed_files.take_unsaid().iter().for_each(eprint);
    let ended_pages: Vec<PageEnd> = ended_pages.into_iter().flatten().collect();
    let over = phase.to.filter(|_| !stop.is_requested());
    let mut result = combine(reports, sums, &ended_pages, plan, epoch, over);
    result.beginning = beginning;
    result.has_failed_files = failed_files.has_any();
    result.punctuality.stolen_share = stolen;
    result.punctuality.has_awake_processors = awake.is_some();
    Ok(result)
}

/// Creates the files that a run writes, with what its clients send them.
fn begin_tables(
    arguments: &Arguments,
    plan: &Plan,
    tag: Option<&str>,
    epoch: Epoch,
) -> Result<(RowSender<RequestRecord>, LogSinks, Tables)> {
    // Leaked, because files refer to them until the process ends.
    let names: RequestNames = plan.names.clone().leak();
    Tables::begin(
        &arguments.outputs,
        tag,
        names,
        arguments.shape.hold.is_some(),
        plan.threads,
        epoch,
    )
}

/// A place for each client, and one for the thread that watches them.
fn start_barrier(plan: &Plan) -> Vec<StartBarrier> {
    let workload = plan.workload.clone();
    let decide = move || client::start_of(&workload);
    StartBarrier::places(plan.threads as usize + 1, decide)
}

/// Waits for the clients to end.
fn join(clients: Vec<JoinHandle<Result<ClientReport>>>) -> Result<Vec<ClientReport>> {
    let joined = clients.into_iter().map(JoinHandle::join);
    let reports = joined.map(|report| report.map_err(|_| anyhow!("a client panicked"))?);
    reports.collect()
}

/// Waits for the last secret to be written.
fn finish_keys(keys: Option<KeyLog>, arguments: &Arguments, failed_files: &FailedFiles) {
    if let (Some(keys), Some(path)) = (keys, &arguments.connection.key_log)
        && let Err(error) = keys.finish()
    {
        failed_files.add(path, &error);
    }
}

fn measurement_kind(workload: &Workload) -> MeasurementKind {
    match workload {
        Workload::Closed(_) => MeasurementKind::Throughput,
        _ => MeasurementKind::Timed,
    }
}

/// The observer that prints what is sent and received, if requested.
fn observer(arguments: &Arguments, plan: &Plan, epoch: Epoch) -> Option<Box<dyn Observer>> {
    arguments.outputs.verbose.then(|| {
        let requests = plan.requests.iter().map(|asked| asked.request.clone());
        let stderr = Box::new(std::io::stderr());
        let start = epoch.time;
        Box::new(VerbosePrinter::new(
            stderr,
            start,
            LinePrefix::Connection,
            requests.collect(),
        )) as _
    })
}

/// Starts a client on its own thread. If it fails, the others stop.
fn start(client: Client, failed: StopSignal) -> Result<JoinHandle<Result<ClientReport>>> {
    thread::Builder::new()
        .name("squall-client".to_owned())
        .spawn(move || failed.guard(|| Ok(client.run()?)))
        .context("cannot start a client")
}

fn settings(arguments: &Arguments, plan: &Plan, share: Share) -> ClientSettings {
    // Connections shared by all users are divided among the threads, like requests.
    let own = |count| share.count(count).max(1);
    let mut pool = plan.pool;
    let connections = match plan.connections {
        connections if plan.pool_per_user => connections,
        Connections::Fixed(count) => Connections::Fixed(own(count)),
        Connections::OnDemand { at_most } => Connections::OnDemand {
            at_most: own(at_most),
        },
    };
    if !plan.pool_per_user {
        pool.warm = share.count(pool.warm);
    }
    ClientSettings {
        targets: plan.targets.clone(),
        protocol: plan.protocol,
        is_strict: plan.is_strict,
        asks_for_http2: arguments.connection.upgrade,
        side: plan.side.clone(),
        connections,
        pool_per_user: plan.pool_per_user,
        pool,
        seed: arguments.amount.seed,
        workload: plan.workload.clone(),
        share,
        requests: plan.requests.clone(),
        traces: false,
        spin: spin(arguments, plan).spin,
        observed: InboxOptions {
            fields: arguments.outputs.verbose,
            bodies: false,
            frames: arguments.outputs.verbose,
        },
        sample_every: arguments.outputs.sample_every,
        stall_timeout: Some(arguments.amount.give_up),
        request_timeout: arguments.amount.timeout,
    }
}

/// Whether each thread may spin on the clock.
fn spin(arguments: &Arguments, plan: &Plan) -> SpinGrant {
    let asked = arguments.amount.spin.map_or(spin::USUAL, Spin::always);
    spin::grant(asked, plan.threads)
}

/// The warm-up time, and the length of the whole load if known.
fn lengths(workload: &Workload) -> (Duration, Option<Duration>) {
    let time = |warmup: Warmup| match warmup {
        Warmup::Time(time) => time,
        Warmup::First(_) => Duration::ZERO,
    };
    match workload {
        Workload::Open(load) => (load.warmup, Some(load.stages.duration())),
        Workload::Closed(load) => (time(load.warmup), load.duration),
        Workload::Script(load) => (load.warmup, load.duration),
        Workload::Pages(load) => (time(load.warmup), load.duration),
    }
}

/// The measured phase of a load that started at `start`.
fn measured_phase(workload: &Workload, start: Time) -> MeasuredPhase {
    let (warmup, length) = lengths(workload);
    let asked = match workload {
        Workload::Open(load) => Some(load.active_duration()),
        Workload::Closed(_) | Workload::Script(_) | Workload::Pages(_) => length,
    };
    MeasuredPhase {
        from: start + warmup,
        to: asked.map(|asked| start + asked),
    }
}

/// Whether everything that a load asks for was begun, so that the last response ended the load, and not its time limit.
/// `begun` counts pages in a load of pages, and requests in others.
fn is_exhausted(workload: &Workload, begun: u64) -> bool {
    match workload {
        Workload::Open(_) => false,
        Workload::Closed(load) => load.requests.is_some_and(|all| begun >= all),
        Workload::Script(load) => begun >= load.steps.len() as u64 * u64::from(load.clients),
        Workload::Pages(load) => load.pages.is_some_and(|all| begun >= all),
    }
}

/// Combines the reports of all clients. `over` is when the load's time was over, unless the user ended the load earlier.
fn combine(
    reports: Vec<ClientReport>,
    sums: FinalSums,
    ended_pages: &[PageEnd],
    plan: &Plan,
    epoch: Epoch,
    over: Option<Time>,
) -> LoadResult {
    let mut result = LoadResult {
        totals: sums.totals,
        end: Time::ZERO,
        counts: SideCounts::default(),
        machine_errors: BTreeMap::new(),
        causes: causes(&reports),
        pages: None,
        answers: sums.answers,
        timeline: sums.timeline,
        drawn: sums.drawn,
        beginning: None,
        threads: plan.threads,
        addresses: plan.targets.iter().filter_map(Target::packets_to).collect(),
        cpu_percent: 0.0,
        punctuality: Punctuality::default(),
        requests: 0,
        rate_asked_per_s: None,
        gave_up: false,
        has_failed_files: false,
    };
    let mut punctuality = client::Punctuality::default();
    let mut unfinished_pages = Vec::new();
    for report in reports {
        result.end = result.end.max(report.load_end.relative_to(epoch.time));
        result.counts.add(&report.counts);
        result.totals.add_gaps(report.gaps.counts());
        result.requests += report.requests;
        result.gave_up |= report.gave_up;
        unfinished_pages.extend(report.unfinished_pages);
        punctuality.merge(&report.punctuality);
        let length = report.load_end.since(report.load_start).as_secs_f64();
        let share = report.processor_time.as_secs_f64() / length.max(1e-9);
        result.cpu_percent = result.cpu_percent.max(100.0 * share);
        for (said, count) in report.machine_errors {
            *result.machine_errors.entry(said).or_default() += count;
        }
    }
    result.punctuality = summarise_punctuality(&punctuality);
    let begun = match &plan.workload {
        Workload::Pages(_) => (ended_pages.len() + unfinished_pages.len()) as u64,
        _ => result.requests,
    };
    if let Some(over) = over.filter(|_| !is_exhausted(&plan.workload, begun)) {
        // Counting only up to the last response, which came earlier, would make every rate higher than the one asked for.
        result.end = result.end.max(over);
    }
    if let Workload::Pages(_) = &plan.workload {
        result.pages = Some(pages::totals(ended_pages, &unfinished_pages));
    }
    if let Workload::Open(load) = &plan.workload {
        result.rate_asked_per_s = mean_rate_per_s(&load.stages);
    }
    result
}

/// Combines the delays that the machine caused to the threads of all clients.
fn summarise_punctuality(of: &client::Punctuality) -> Punctuality {
    let longest = of.longest.map(|longest| LongestLag {
        lag: longest.lag,
        machine: longest.machine,
        run_queue_delay: longest.run_queue_delay,
    });
    let share = of.machine.as_secs_f64() / of.lag.as_secs_f64();
    Punctuality {
        woken_late: of.woken_late.lateness(),
        share_of_lag: (!of.lag.is_zero()).then_some(share),
        own_lag: of.own_lag.lateness(),
        longest,
        stolen_share: None,
        has_awake_processors: false,
    }
}

/// The share of all processors' time that the hypervisor has taken since `before`.
fn share_stolen_since(before: ProcessorTimes) -> Option<f64> {
    let times = ProcessorTimes::read()?.since(before);
    let all = times.busy + times.idle + times.steal;
    Some(times.steal as f64 / all.max(1) as f64)
}

/// Causes of delay, summed over all clients.
fn causes(reports: &[ClientReport]) -> SendLimits {
    let sum_of = |part: &dyn Fn(&ClientReport) -> Duration| {
        (reports.iter()).fold(Duration::ZERO, |sum, report| sum + part(report))
    };
    let count = |part: &dyn Fn(&ClientReport) -> u64| reports.iter().map(part).sum::<u64>();
    let times = TcpTimes {
        busy: sum_of(&|report| report.causes.tcp.busy),
        receive_window: sum_of(&|report| report.causes.tcp.receive_window),
        send_buffer: sum_of(&|report| report.causes.tcp.send_buffer),
    };
    let quic = QuicLosses {
        connections: count(&|report| report.causes.quic.connections),
        packets: count(&|report| report.causes.quic.packets),
        lost: count(&|report| report.causes.quic.lost),
    };
    SendLimits {
        tcp: TcpSendLimits::of(
            count(&|report| report.causes.tcp.connections),
            sum_of(&|report| report.causes.tcp.open),
            times,
            (
                count(&|report| report.causes.tcp.segments),
                count(&|report| report.causes.tcp.retransmitted),
            ),
        ),
        quic: (quic.connections > 0).then_some(quic),
        http2_bodies: BodySendLimits::of(
            count(&|report| report.causes.windows.bodies),
            sum_of(&|report| report.causes.windows.sending),
            sum_of(&|report| report.causes.windows.stream),
            sum_of(&|report| report.causes.windows.connection),
        ),
    }
}

/// The mean rate of all stages; trailing pauses do not count.
fn mean_rate_per_s(stages: &Stages) -> Option<f64> {
    let (mut requests, mut seconds, mut pause) = (0.0, 0.0, 0.0);
    for stage in stages.as_slice() {
        let per_second = |rate: Option<Rate>| rate.map_or(0.0, Rate::per_second);
        let mean_per_s = (per_second(stage.from) + per_second(stage.to)) / 2.0;
        let length = stage.duration.as_secs_f64();
        if mean_per_s == 0.0 {
            pause += length;
        } else {
            requests += mean_per_s * length;
            seconds += pause + length;
            pause = 0.0;
        }
    }
    (seconds > 0.0).then(|| requests / seconds)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{ClosedLoad, Mix, OpenLoad, Spacing, Stage};

    use super::*;

    #[test]
    fn open_load_is_measured_for_the_time_that_its_requests_cover() {
        let second = Duration::from_secs(1);
        let start = Time::from_nanos(7);
        let rate: Rate = "1/s".parse().unwrap();
        for requests in [2, 5, 10] {
            let length = Duration::from_secs(requests);
            let workload = Workload::Open(OpenLoad {
                stages: Stages::new(vec![Stage::constant(rate, second + length)]).unwrap(),
                spacing: Spacing::Constant,
                warmup: second,
                drain: Duration::ZERO,
                mix: Mix::default(),
                seed: 0,
            });
            let phase = measured_phase(&workload, start);
            assert_eq!(phase.from, start + second);
            assert_eq!(phase.to, Some(phase.from + length));
            assert!(!is_exhausted(&workload, requests + 1));
        }
    }

    #[test]
    fn closed_load_with_a_request_limit_ends_with_its_last_response() {
        let load = |requests, duration| {
            Workload::Closed(ClosedLoad {
                requests,
                duration,
                ..ClosedLoad::of(2)
            })
        };
        let minute = Duration::from_secs(60);
        let start = Time::from_nanos(7);
        assert_eq!(measured_phase(&load(Some(9), None), start).to, None);
        let phase = measured_phase(&load(None, Some(minute)), start);
        assert_eq!((phase.from, phase.to), (start, Some(start + minute)));
        // The limit that is reached first ends the load.
        assert!(is_exhausted(&load(Some(9), Some(minute)), 9));
        assert!(!is_exhausted(&load(Some(9), Some(minute)), 8));
        assert!(!is_exhausted(&load(None, Some(minute)), 8));
    }
}

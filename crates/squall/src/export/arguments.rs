//! The flags of `squall export`, and its formats.
//!
//! Only what clap can check; `mod` selects the trials and writes the formats.

use std::path::{Path, PathBuf};

use squall_base::record::Side;

use crate::trials::TrialSelection;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall export runs/twilio-20261121T120000Z --to cells -o cells.parquet\n  \
    squall export runs/twilio-20261121T120000Z --variant h1 --to trace -o h1.json\n  \
    squall export runs/twilio-20261121T120000Z --trial 4 --to har -o 4.har\n  \
    squall export runs/twilio-20261121T120000Z --trial 4 --to pcapng -o 4.pcapng\n  \
    squall export runs/twilio-20261121T120000Z --to svg -o plots\n  \
    squall export runs/twilio-20261121T120000Z --to png --plot response-time-p99 -o p99.png\n  \
    squall export requests.parquet --to hgrm\n\n\
    svg and png export the plots of a whole run. cells, openmetrics and trace export all selected trials, the other \
    formats a single one. docs/RECORD.md describes the formats."
)]
pub(crate) struct Arguments {
    /// Folder of a run or of one of its trials, or a table of requests as `squall load --output` writes it
    pub(super) run: PathBuf,
    /// Format of the output
    #[arg(long, value_name = "FORMAT")]
    pub(super) to: Format,
    /// Write to this file, which is replaced once the export is complete [default: stdout]; for svg and png without
    /// --plot, write to files in this folder
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// svg and png: only this plot, by its file name [default: all]; an unknown name lists the valid ones
    #[arg(long, value_name = "NAME")]
    pub(super) plot: Option<String>,
    #[command(flatten)]
    pub(super) selection: TrialSelection,
    #[command(flatten)]
    pub(super) part: Part,
}

impl Arguments {
    /// The file to write; `None` is stdout.
    pub(super) fn output(&self) -> Option<&Path> {
        self.output
            .as_deref()
            .filter(|path| *path != Path::new("-"))
    }
}

/// Which part of a trial to write, for formats of a single hop, connection or side.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Parts of a trial")]
pub(super) struct Part {
    /// qlog, qlog-seq, pcapng and xpl: this hop of the path, counted from 1 [default: the one across the first link]
    #[arg(long, value_name = "NUMBER")]
    pub(super) hop: Option<u8>,
    /// qlog and qlog-seq: this connection, counted from 0 in the order of opening; xpl: this `flow` of packets.parquet
    /// [default: all in qlog, otherwise 0]
    #[arg(long, value_name = "NUMBER")]
    pub(super) connection: Option<u32>,
    /// qlog and qlog-seq: what this side recorded [default: both in qlog, client in qlog-seq]; xpl: the data that this
    /// side sent [default: server]
    #[arg(long, value_name = "SIDE")]
    pub(super) side: Option<SideFlag>,
}

impl Part {
    pub(super) fn is_given(&self) -> bool {
        self.hop.is_some() || self.is_of_a_connection()
    }

    /// Whether a flag for a connection or a side of it was given.
    pub(super) fn is_of_a_connection(&self) -> bool {
        self.connection.is_some() || self.side.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SideFlag {
    /// The side that opens connections
    Client,
    /// The side that accepts connections
    Server,
}

impl From<SideFlag> for Side {
    fn from(flag: SideFlag) -> Side {
        match flag {
            SideFlag::Client => Side::Client,
            SideFlag::Server => Side::Server,
        }
    }
}

/// A format of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// HAR 1.2, for the developer tools of browsers and `squall import har`
    Har,
    /// Trace for Perfetto and chrome://tracing: connections, requests, causes, drops
    Trace,
    /// qlog as one JSON text, for qvis and qlog-dancer
    Qlog,
    /// qlog of one connection as a sequence of JSON texts
    QlogSeq,
    /// Packets for Wireshark, with what the link did to them; without a capture (`squall run --pcap`) only headers
    Pcapng,
    /// Counts and response times in OpenMetrics' text format, for Prometheus
    Openmetrics,
    /// Results for `vegeta report` and `vegeta plot`
    Vegeta,
    /// h2load's --log-file
    H2load,
    /// HdrHistogram's percentiles, for its plotter
    Hgrm,
    /// HdrHistogram's interval log
    Hlog,
    /// Every column of requests.parquet as CSV
    Csv,
    /// The figures of every trial, a row each: Parquet into a file whose name ends in .parquet, otherwise CSV
    Cells,
    /// tcptrace's time-sequence graph of one TCP connection, for xplot
    Xpl,
    /// Plots of the run's report, each as an SVG; Chromium makes them
    Svg,
    /// Plots of the run's report, each as a PNG of twice its size; Chromium makes them
    Png,
}

/// How a format is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From requests.parquet alone.
    Requests(RequestFormat),
    Trace,
    Metrics,
    Cells,
    Qlog,
    QlogSequence,
    Packets,
    TimeSequence,
    /// From the page of the whole run.
    Plots(PlotFormat),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFormat {
    Har,
    Vegeta,
    H2load,
    Hgrm,
    Hlog,
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlotFormat {
    Svg,
    Png,
}

impl PlotFormat {
    /// Its name in the page's scripts, and the extension of its files.
    pub(super) fn name(self) -> &'static str {
        match self {
            PlotFormat::Svg => "svg",
            PlotFormat::Png => "png",
        }
    }
}

impl Kind {
    /// Whether the format describes a single hop of a trial.
    pub(super) fn is_of_a_hop(self) -> bool {
        match self {
            Kind::Qlog | Kind::QlogSequence | Kind::Packets | Kind::TimeSequence => true,
            Kind::Requests(_) | Kind::Trace | Kind::Metrics | Kind::Cells | Kind::Plots(_) => false,
        }
    }
}

impl Format {
    pub(super) fn kind(self) -> Kind {
        match self {
            Format::Har => Kind::Requests(RequestFormat::Har),
            Format::Vegeta => Kind::Requests(RequestFormat::Vegeta),
            Format::H2load => Kind::Requests(RequestFormat::H2load),
            Format::Hgrm => Kind::Requests(RequestFormat::Hgrm),
            Format::Hlog => Kind::Requests(RequestFormat::Hlog),
            Format::Csv => Kind::Requests(RequestFormat::Csv),
            Format::Trace => Kind::Trace,
            Format::Openmetrics => Kind::Metrics,
            Format::Cells => Kind::Cells,
            Format::Qlog => Kind::Qlog,
            Format::QlogSeq => Kind::QlogSequence,
            Format::Pcapng => Kind::Packets,
            Format::Xpl => Kind::TimeSequence,
            Format::Svg => Kind::Plots(PlotFormat::Svg),
            Format::Png => Kind::Plots(PlotFormat::Png),
        }
    }
}

//! `TcpSettings` as socket options (tcp(7), socket(7)), and the values the kernel actually uses.
//!
//! `tcp_slow_start_after_idle` and a cap of the congestion window are not socket options: see `Host::configure_tcp` and
//! `cwnd_cap`.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::socket::{GetSockOpt, SetSockOpt, getsockopt, setsockopt, sockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use squall_base::plan::{PortRange, TcpSettings};
use squall_base::{BitRate, Bytes, Duration};

use super::{SocketError, congestion_control};
use crate::sysctl;

sockopt_impl!(
    /// TCP_NOTSENT_LOWAT, which nix lacks; 0 means the host's default.
    NotSentLowat,
    Both,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);

sockopt_impl!(
    /// SO_MAX_PACING_RATE, which nix lacks: payload in bytes per second, as an unsigned long; all ones means no limit.
    MaxPacingRate,
    Both,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    usize
);

/// IP_LOCAL_PORT_RANGE from include/uapi/linux/in.h, which libc lacks.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;

sockopt_impl!(
    /// The local ports that a socket may use: the lowest in the lower 16 bits, the highest in the upper 16. It applies to
    /// IPv6 sockets too.
    LocalPortRange,
    SetOnly,
    libc::IPPROTO_IP,
    IP_LOCAL_PORT_RANGE,
    u32
);

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The congestion controls that every user may set.
const ALLOWED_CONGESTION_CONTROLS: &str = "net.ipv4.tcp_allowed_congestion_control";
/// Those that are compiled in or loaded.
const AVAILABLE_CONGESTION_CONTROLS: &str = "net.ipv4.tcp_available_congestion_control";

/// The options that the kernel actually uses for a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// TCP_CONGESTION.
    pub congestion_control: String,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// TCP_NOTSENT_LOWAT; `None` means the host's net.ipv4.tcp_notsent_lowat.
    pub notsent_lowat: Option<Bytes>,
    /// The current SO_SNDBUF: twice the requested size (half of it is for bookkeeping), or the size that automatic tuning
    /// has reached.
    pub send_buffer: Bytes,
    /// The current SO_RCVBUF, likewise.
    pub receive_buffer: Bytes,
    /// TCP_KEEPIDLE, if SO_KEEPALIVE is on.
    pub keep_alive: Option<Duration>,
    /// SO_MAX_PACING_RATE, in whole bytes per second.
    pub max_pacing_rate: Option<BitRate>,
}

/// Reads the options that the kernel actually uses for this socket, connected or listening.
pub fn read_back(socket: impl AsFd) -> io::Result<TcpOptions> {
    let notsent_lowat = match getsockopt(&socket, NotSentLowat)? {
        0 => None,
        bytes => Some(Bytes::new(bytes.into())),
    };
    let keep_alive = if getsockopt(&socket, sockopt::KeepAlive)? {
        let seconds = getsockopt(&socket, sockopt::TcpKeepIdle)?;
        Some(Duration::from_secs(seconds.into()))
    } else {
        None
    };
    let max_pacing_rate = match getsockopt(&socket, MaxPacingRate)? {
        usize::MAX => None,
        bytes => BitRate::new((bytes as u64).saturating_mul(8)),
    };
    Ok(TcpOptions {
        congestion_control: congestion_control(&socket)?,
        no_delay: getsockopt(&socket, sockopt::TcpNoDelay)?,
        notsent_lowat,
        send_buffer: Bytes::new(getsockopt(&socket, sockopt::SndBuf)? as u64),
        receive_buffer: Bytes::new(getsockopt(&socket, sockopt::RcvBuf)? as u64),
        keep_alive,
        max_pacing_rate,
    })
}

/// Sets every option in `settings`. Call it before `connect` or `listen`.
pub(super) fn set(socket: &impl AsFd, settings: &TcpSettings) -> Result<(), SocketError> {
    setsockopt(socket, sockopt::TcpNoDelay, &settings.no_delay).map_err(refused(
        "TCP_NODELAY",
        settings.no_delay.into(),
        "It is 0 or 1",
    ))?;
    if let Some(name) = &settings.congestion_control {
        set_congestion_control(socket, name)?;
    }
    if let Some(bytes) = settings.notsent_lowat {
        set_notsent_lowat(socket, bytes)?;
    }
    set_buffers(socket, settings.send_buffer, settings.receive_buffer)?;
    if let Some(rate) = settings.max_pacing_rate {
        set_max_pacing_rate(socket, rate)?;
    }
    match settings.keep_alive {
        Some(idle) => set_keep_alive(socket, idle),
        None => Ok(()),
    }
}

fn set_congestion_control(socket: &impl AsFd, name: &str) -> Result<(), SocketError> {
    setsockopt(socket, sockopt::TcpCongestion, &name.into()).map_err(|source| {
        let choices = match source {
            Errno::EPERM => ALLOWED_CONGESTION_CONTROLS,
            _ => AVAILABLE_CONGESTION_CONTROLS,
        };
        SocketError::CongestionControl {
            name: name.to_owned(),
            choices: sysctl::read(choices).unwrap_or_default(),
            source,
        }
    })
}

fn refused(
    option: &'static str,
    value: u64,
    advice: &'static str,
) -> impl Fn(Errno) -> SocketError {
    move |source| SocketError::Option {
        option,
        value,
        advice,
        source,
    }
}

/// The kernel stores an i32, where 0 means the host's default and a negative value no limit: neither is a number of bytes.
fn set_notsent_lowat(socket: &impl AsFd, bytes: Bytes) -> Result<(), SocketError> {
    let failed = refused(
        "TCP_NOTSENT_LOWAT",
        bytes.get(),
        "Use 1 to 2147483647 bytes, or leave it out for the host's",
    );
    match i32::try_from(bytes.get()) {
        Ok(value @ 1..) => setsockopt(socket, NotSentLowat, &value.cast_unsigned()).map_err(failed),
        _ => Err(failed(Errno::EINVAL)),
    }
}

/// In whole bytes per second, rounded down.
fn set_max_pacing_rate(socket: &impl AsFd, rate: BitRate) -> Result<(), SocketError> {
    let bytes = rate.bits_per_s() / 8;
    let failed = refused(
        "SO_MAX_PACING_RATE",
        bytes,
        "Use 8 bits a second or more, or leave it out for no limit",
    );
    // With 0, the connection would never send.
    match usize::try_from(bytes) {
        Ok(value @ 1..) => setsockopt(socket, MaxPacingRate, &value).map_err(failed),
        _ => Err(failed(Errno::EINVAL)),
    }
}

/// In whole seconds, rounded up, as the kernel counts.
fn set_keep_alive(socket: &impl AsFd, idle: Duration) -> Result<(), SocketError> {
    let seconds = idle.as_nanos().div_ceil(NANOS_PER_SECOND);
    let failed = refused(
        "TCP_KEEPIDLE",
        seconds,
        // MAX_TCP_KEEPIDLE in include/net/tcp.h.
        "Use 1 to 32767 seconds, or leave it out for no keep-alive",
    );
    let value = u32::try_from(seconds).map_err(|_| failed(Errno::EINVAL))?;
    setsockopt(socket, sockopt::TcpKeepIdle, &value).map_err(&failed)?;
    setsockopt(socket, sockopt::KeepAlive, &true).map_err(failed)
}

/// Restricts a socket to these local ports. Call it before `connect`, or before `bind` to port 0.
pub(crate) fn set_local_ports(socket: &impl AsFd, ports: PortRange) -> Result<(), SocketError> {
    let value = u32::from(ports.last()) << 16 | u32::from(ports.first());
    setsockopt(socket, LocalPortRange, &value).map_err(|source| SocketError::LocalPorts {
        ports,
        reason: source.to_string(),
        advice: match source {
            Errno::ENOPROTOOPT => "It needs Linux 6.3 or later",
            _ => "Leave it out for any port",
        },
    })
}

/// Refuses a port outside the requested range. Where the host's range lacks the requested ports, the kernel silently uses
/// others (inet_sk_get_local_port_range in net/ipv4/inet_connection_sock.c).
pub(crate) fn check_local_port(port: u16, ports: PortRange) -> Result<(), SocketError> {
    if ports.contains(port) {
        return Ok(());
    }
    Err(SocketError::LocalPorts {
        ports,
        reason: format!("the kernel took port {port}, because its own range lacks some of them"),
        advice: "List its range with `sysctl net.ipv4.ip_local_port_range`",
    })
}

/// The options for one of a socket's two buffers.
struct Buffer<Usual, Forced> {
    name: &'static str,
    limit: &'static str,
    usual: Usual,
    /// Exceeds the limit, which takes CAP_NET_ADMIN.
    forced: Forced,
}

const SEND: Buffer<sockopt::SndBuf, sockopt::SndBufForce> = Buffer {
    name: "SO_SNDBUF",
    limit: "net.core.wmem_max",
    usual: sockopt::SndBuf,
    forced: sockopt::SndBufForce,
};
const RECEIVE: Buffer<sockopt::RcvBuf, sockopt::RcvBufForce> = Buffer {
    name: "SO_RCVBUF",
    limit: "net.core.rmem_max",
    usual: sockopt::RcvBuf,
    forced: sockopt::RcvBufForce,
};

/// The kernel silently truncates a large buffer, so the granted size is read back. A size below the kernel's minimum is
/// raised, which is fine.
fn set_buffer<Usual, Forced>(
    socket: &impl AsFd,
    buffer: &Buffer<Usual, Forced>,
    asked: Bytes,
) -> Result<(), SocketError>
where
    Usual: SetSockOpt<Val = usize> + GetSockOpt<Val = usize> + Copy,
    Forced: SetSockOpt<Val = usize> + Copy,
{
    // The kernel doubles the size in an i32.
    let failed = refused(buffer.name, asked.get(), "Use 1 byte to 1 GiB - 1");
    let value = match usize::try_from(asked.get()) {
        Ok(value) if value <= i32::MAX as usize / 2 => value,
        _ => return Err(failed(Errno::EINVAL)),
    };
    setsockopt(socket, buffer.usual, &value).map_err(&failed)?;
    let given = getsockopt(socket, buffer.usual).map_err(failed)? / 2;
    if given >= value || setsockopt(socket, buffer.forced, &value).is_ok() {
        return Ok(());
    }
    Err(SocketError::Buffer {
        option: buffer.name,
        asked,
        allowed: Bytes::new(given as u64),
        limit: buffer.limit,
    })
}

/// Sets the requested buffers.
pub(crate) fn set_buffers(
    socket: &impl AsFd,
    send: Option<Bytes>,
    receive: Option<Bytes>,
) -> Result<(), SocketError> {
    if let Some(bytes) = send {
        set_buffer(socket, &SEND, bytes)?;
    }
    match receive {
        Some(bytes) => set_buffer(socket, &RECEIVE, bytes),
        None => Ok(()),
    }
}

/// Space for packets that wait for a late reader: enough for some 10,000 short ones, or 400 of 64 KiB.
const LARGE_RECEIVE_BUFFER_BYTES: usize = 32 << 20;

/// Asks for a large receive buffer. Without CAP_NET_ADMIN in the machine's first user namespace, which the owner of a host
/// lacks, the kernel grants at most net.core.rmem_max; a late reader then loses more.
pub(crate) fn ask_for_large_receive_buffer(socket: &impl AsFd) {
    if setsockopt(socket, sockopt::RcvBufForce, &LARGE_RECEIVE_BUFFER_BYTES).is_err() {
        // A smaller buffer will do, and so will the usual one.
        let _ = setsockopt(socket, sockopt::RcvBuf, &LARGE_RECEIVE_BUFFER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

    use super::super::{accept, start_connect, start_listening};
    use super::*;

    /// A connected pair: the client's socket, the server's, and the listener.
    fn connected(
        listener: TcpListener,
        client: &TcpSettings,
    ) -> (TcpStream, TcpStream, TcpListener) {
        let address = listener.local_addr().unwrap();
        let client = start_connect(address, client).unwrap();
        let server = loop {
            match accept(&listener).unwrap() {
                Some(server) => break server,
                None => std::thread::yield_now(),
            }
        };
        (client, server, listener)
    }

    fn localhost() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    /// Only the one congestion control that every user may set everywhere.
    fn reno() -> TcpSettings {
        TcpSettings {
            congestion_control: Some("reno".to_owned()),
            ..TcpSettings::default()
        }
    }

    fn everything() -> TcpSettings {
        TcpSettings {
            congestion_control: Some("reno".to_owned()),
            no_delay: false,
            notsent_lowat: Some(Bytes::new(16_384)),
            send_buffer: Some(Bytes::new(50_000)),
            receive_buffer: Some(Bytes::new(60_000)),
            keep_alive: Some(Duration::from_millis(6_500)),
            max_pacing_rate: BitRate::new(8_000_007),
            ..TcpSettings::default()
        }
    }

    #[test]
    fn every_option_is_read_back_from_both_ends() {
        let settings = everything();
        let listener = start_listening(localhost(), &settings).unwrap();
        let (client, server, listener) = connected(listener, &settings);
        let expected = TcpOptions {
            congestion_control: "reno".to_owned(),
            no_delay: false,
            notsent_lowat: Some(Bytes::new(16_384)),
            send_buffer: Bytes::new(100_000),
            receive_buffer: Bytes::new(120_000),
            keep_alive: Some(Duration::from_secs(7)),
            max_pacing_rate: BitRate::new(8_000_000),
        };
        assert_eq!(read_back(&client).unwrap(), expected);
        assert_eq!(read_back(&listener).unwrap(), expected);
        assert_eq!(read_back(&server).unwrap(), expected, "it is inherited");
    }

    #[test]
    fn unset_options_keep_the_kernels_defaults() {
        let settings = TcpSettings {
            congestion_control: None,
            ..TcpSettings::default()
        };
        let listener = start_listening(localhost(), &settings).unwrap();
        let default = sysctl::read("net.ipv4.tcp_congestion_control").unwrap();
        let (client, server, _listener) = connected(listener, &settings);
        for socket in [client, server] {
            let found = read_back(&socket).unwrap();
            assert_eq!(found.congestion_control, default);
            assert!(found.no_delay);
            assert_eq!((found.notsent_lowat, found.keep_alive), (None, None));
            assert_eq!(found.max_pacing_rate, None);
            assert!(found.send_buffer.get() > 0 && found.receive_buffer.get() > 0);
        }
    }

    #[test]
    fn options_are_set_on_ipv6_sockets_too() {
        let settings = everything();
        let listener = match start_listening((Ipv6Addr::LOCALHOST, 0).into(), &settings) {
            Ok(listener) => listener,
            Err(SocketError::System { source, .. }) => {
                println!("skipped: this machine has no IPv6: {source}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let (client, server, _listener) = connected(listener, &settings);
        assert!(client.peer_addr().unwrap().is_ipv6());
        assert_eq!(read_back(&client).unwrap(), read_back(&server).unwrap());
        assert_eq!(read_back(&client).unwrap().send_buffer, Bytes::new(100_000));
    }

    #[test]
    fn a_refusal_names_the_option_the_value_and_what_to_try() {
        let refusal = |change: fn(&mut TcpSettings)| {
            let mut settings = reno();
            change(&mut settings);
            start_connect(localhost(), &settings)
                .unwrap_err()
                .to_string()
        };
        let keep_idle = refusal(|tcp| tcp.keep_alive = Some(Duration::from_secs(40_000)));
        assert_eq!(
            keep_idle,
            "cannot set TCP_KEEPIDLE to 40000: EINVAL: Invalid argument. \
             Use 1 to 32767 seconds, or leave it out for no keep-alive"
        );
        let lowat = refusal(|tcp| tcp.notsent_lowat = Some(Bytes::new(0)));
        assert!(
            lowat.starts_with("cannot set TCP_NOTSENT_LOWAT to 0: "),
            "{lowat}"
        );
        let buffer = refusal(|tcp| tcp.send_buffer = Some(Bytes::new(1 << 40)));
        assert!(
            buffer.starts_with("cannot set SO_SNDBUF to 1099511627776: "),
            "{buffer}"
        );
        let pace = refusal(|tcp| tcp.max_pacing_rate = BitRate::new(7));
        assert!(
            pace.starts_with("cannot set SO_MAX_PACING_RATE to 0: "),
            "{pace}"
        );
        let unknown = refusal(|tcp| tcp.congestion_control = Some("carrier_pigeon".to_owned()));
        assert!(
            unknown.contains("carrier_pigeon") && unknown.contains("reno"),
            "{unknown}"
        );
    }

    #[test]
    fn connections_use_the_requested_local_ports_until_none_is_left() {
        let settings = TcpSettings {
            local_ports: PortRange::new(41_000, 41_002),
            ..reno()
        };
        for address in [localhost(), (Ipv6Addr::LOCALHOST, 0).into()] {
            let Ok(listener) = start_listening(address, &reno()) else {
                println!("skipped: this machine has no IPv6");
                continue;
            };
            let address = listener.local_addr().unwrap();
            let mut kept = Vec::new();
            for _ in 0..3 {
                match start_connect(address, &settings) {
                    Ok(stream) => kept.push(stream),
                    Err(error @ SocketError::LocalPorts { .. }) => {
                        return println!("skipped: {error}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            let mut ports: Vec<u16> = (kept.iter())
                .map(|stream| stream.local_addr().unwrap().port())
                .collect();
            ports.sort_unstable();
            assert_eq!(ports, [41_000, 41_001, 41_002]);
            let none = start_connect(address, &settings).unwrap_err();
            assert!(none.lacks_port(), "{none}");
        }
    }

    #[test]
    fn ports_outside_of_the_hosts_range_are_refused() {
        let settings = TcpSettings {
            local_ports: PortRange::new(1, 2),
            ..reno()
        };
        let listener = start_listening(localhost(), &reno()).unwrap();
        let error = start_connect(listener.local_addr().unwrap(), &settings).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("cannot begin from the ports 1-2: ") && !error.lacks_port(),
            "{said}"
        );
    }

    #[test]
    fn late_reader_gets_the_largest_receive_buffer_this_user_may_have() {
        let socket = std::net::UdpSocket::bind(localhost()).unwrap();
        ask_for_large_receive_buffer(&socket);
        let limit = sysctl::read("net.core.rmem_max").unwrap();
        let limit: usize = limit.parse().unwrap();
        // The kernel reports twice the size.
        let given = getsockopt(&socket, sockopt::RcvBuf).unwrap() / 2;
        assert!(
            given >= limit.min(LARGE_RECEIVE_BUFFER_BYTES),
            "{given} of {limit}"
        );
    }

    #[test]
    fn a_buffer_beyond_the_limit_is_granted_or_refused_never_truncated() {
        let asked = Bytes::new(64 << 20);
        let settings = TcpSettings {
            receive_buffer: Some(asked),
            ..reno()
        };
        match start_listening(localhost(), &settings) {
            Ok(listener) => {
                let found = read_back(&listener).unwrap().receive_buffer;
                assert_eq!(found, Bytes::new(2 * asked.get()));
            }
            Err(SocketError::Buffer { allowed, .. }) => assert!(allowed < asked),
            Err(error) => panic!("{error}"),
        }
    }
}

//! One bulk TCP flow over the same link, without HTTP and without squall's stations: what the kernel's TCP can carry
//! there. It is the yardstick for a saturated HTTP/2 connection.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::TcpSettings;
use squall_linux::socket;

use crate::bare_link::{ADDRESS, BareLink};

/// Bytes per second that one CUBIC flow delivers to its receiver while it always has data to send.
pub(crate) fn bytes_per_s(seed: u64, span: Duration) -> f64 {
    let link = BareLink::lossy(seed);
    let listener = link
        .server
        .run(|| {
            Ok(socket::start_listening(
                ADDRESS.into(),
                &TcpSettings::default(),
            ))
        })
        .expect("the server's host")
        .expect("a listener");
    let sender = link
        .client
        .run(|| {
            Ok(socket::start_connect(
                ADDRESS.into(),
                &TcpSettings::default(),
            ))
        })
        .expect("the client's host")
        .expect("a connection");
    let until = Instant::now() + span;
    let received = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&listener, until));
        send(&sender, until);
        receiver.join().expect("the receiver ends")
    });
    socket::close_abruptly(sender);
    link.end();
    received as f64 / span.as_secs_f64()
}

fn send(mut socket: &std::net::TcpStream, until: Instant) {
    let block = [0_u8; 64 * 1024];
    while Instant::now() < until {
        match socket.write(&block) {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::NotConnected
                ) =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("the flow broke: {error}"),
        }
    }
}

fn receive(listener: &std::net::TcpListener, until: Instant) -> u64 {
    let mut block = [0_u8; 64 * 1024];
    let (mut stream, mut received) = (None, 0);
    while Instant::now() < until {
        if stream.is_none() {
            stream = socket::accept(listener).expect("it can accept");
        }
        match stream
            .as_mut()
            .map(|stream: &mut std::net::TcpStream| stream.read(&mut block))
        {
            Some(Ok(count)) => received += count as u64,
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
    if let Some(stream) = stream {
        socket::close_abruptly(stream);
    }
    received
}

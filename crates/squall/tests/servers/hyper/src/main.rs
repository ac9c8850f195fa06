//! A server of hyper, over HTTP/2 in cleartext, for `squall probe`: it reads each body to its end and responds with its
//! size.
//!
//! Every setting is hyper's default.

use std::error::Error;
use std::net::Ipv4Addr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

async fn drain(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        size += frame.data_ref().map_or(0, Bytes::len);
    }
    Ok(Response::new(Full::new(Bytes::from(format!("{size}\n")))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args()
        .nth(1)
        .ok_or("usage: hyper-server PORT")?
        .parse::<u16>()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let server = http2::Builder::new(TokioExecutor::new());
            let connection = server.serve_connection(TokioIo::new(stream), service_fn(drain));
            if let Err(error) = connection.await {
                eprintln!("{error}");
            }
        });
    }
}

//! An S3 server over loopback HTTP, for tests, examples and benches: one bucket in memory, real signatures, latency,
//! faults and counts. Not durable, not for production.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

mod body;
mod bucket;
mod control;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Body as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::Body;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use self::body::{Cut, collect};
use self::bucket::Bucket;
pub use self::control::{Control, Fault, Operation};

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    pub access_key: String,
    pub secret_key: String,
    pub bucket: String,
    /// Added to every write, after its effect and before its reply.
    pub put_latency: Duration,
    /// Added to every read.
    pub get_latency: Duration,
}

impl Options {
    /// Any free port, no latency.
    pub fn for_tests() -> Options {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            access_key: "milepost".to_owned(),
            secret_key: "milepost-secret".to_owned(),
            bucket: "records".to_owned(),
            put_latency: Duration::ZERO,
            get_latency: Duration::ZERO,
        }
    }
}

/// A running server; stops accepting when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    control: Arc<Control>,
    accept: JoinHandle<()>,
}

impl Server {
    pub async fn start(options: Options) -> io::Result<Server> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let control = Arc::new(Control::default());
        let mut builder = S3ServiceBuilder::new(Bucket::new(options.bucket));
        builder.set_auth(SimpleAuth::from_single(options.access_key, options.secret_key));
        let front = Arc::new(Front {
            s3: builder.build(),
            control: control.clone(),
            put_latency: options.put_latency,
            get_latency: options.get_latency,
        });
        let accept = tokio::spawn(accept(front, listener, address));
        Ok(Server { address, control, accept })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Counts, and faults to come.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Runs until the listener fails.
    pub async fn run(mut self) {
        let _ = (&mut self.accept).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

/// Accepts connections; while an outage is ordered nobody listens and nobody is answered.
async fn accept(front: Arc<Front>, listener: TcpListener, address: SocketAddr) {
    let mut listener = listener;
    loop {
        let mut connections = JoinSet::new();
        let outage = loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((stream, caller)) = accepted else { return };
                    connections.spawn(serve(front.clone(), stream, caller.ip()));
                }
                outage = front.control.outage() => break outage,
                Some(_) = connections.join_next() => {}
            }
        };
        drop(listener);
        connections.shutdown().await;
        tokio::time::sleep(outage).await;
        let Ok(again) = TcpListener::bind(address).await else { return };
        listener = again;
    }
}

async fn serve(front: Arc<Front>, stream: TcpStream, caller: IpAddr) {
    // Without it a small reply waits 40 ms for the client's delayed ACK.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { front.answer(caller, request).await }
    });
    // A connection that breaks, by a client or by a fault, is nothing to report.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// What stands before the bucket: the control paths, counting, latency and faults.
struct Front {
    s3: S3Service,
    control: Arc<Control>,
    put_latency: Duration,
    get_latency: Duration,
}

/// Returned instead of a reply, it closes the connection.
type Closed = io::Error;

impl Front {
    async fn answer(
        self: Arc<Self>,
        caller: IpAddr,
        request: Request<hyper::body::Incoming>,
    ) -> Result<Response<Body>, Closed> {
        let (parts, mut body) = request.into_parts();
        // Read in full before anything else, as S3 does: a reply amid an upload reads like a broken connection.
        let body = collect(&mut body).await?;
        if let Some(path) = parts.uri.path().strip_prefix("/_milepost/") {
            return Ok(self.control_path(&parts.method, path, &body));
        }
        let operation = Operation::of(&parts.method, &parts.uri);
        let len = body.len() as u64;
        let fault = self.control.begin(caller, operation, len);
        let request = Request::from_parts(parts, Body::from(body));
        match fault {
            Some(Fault::InternalError) => return Ok(error(500, "InternalError")),
            Some(Fault::SlowDown) => return Ok(error(503, "SlowDown")),
            Some(Fault::Conflict) => return Ok(error(409, "ConditionalRequestConflict")),
            Some(Fault::PreconditionFailed) => return Ok(error(412, "PreconditionFailed")),
            Some(Fault::HangMs(ms)) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Some(Fault::LateMs(ms)) => {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    // Its caller has long been told that the connection is gone.
                    let _ = self.s3.call(request).await;
                });
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            _ => {}
        }
        let mut response = self.s3.call(request).await.map_err(|e| io::Error::other(format!("{e:?}")))?;
        let latency = if operation.writes() { self.put_latency } else { self.get_latency };
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        match fault {
            Some(Fault::LostReply) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Some(Fault::TruncatedBody) => response = self.cut(response, Cut::Truncated).await?,
            Some(Fault::ShortBody) => response = self.cut(response, Cut::Short).await?,
            Some(Fault::SlowBodyMs(ms)) => {
                response = self.cut(response, Cut::Slow(Duration::from_millis(ms))).await?;
            }
            _ => {}
        }
        self.control.end(caller, response.body().size_hint().lower());
        Ok(response)
    }

    async fn cut(&self, response: Response<Body>, cut: Cut) -> io::Result<Response<Body>> {
        let (mut head, mut body) = response.into_parts();
        let bytes = collect(&mut body).await?;
        if matches!(cut, Cut::Short) {
            head.headers.insert("content-length", (bytes.len() / 2).into());
        }
        Ok(Response::from_parts(head, cut.of(bytes)))
    }

    fn control_path(&self, method: &Method, path: &str, body: &[u8]) -> Response<Body> {
        match (method, path) {
            (&Method::GET, "stats") => json(StatusCode::OK, self.control.stats().to_string()),
            (&Method::POST, "faults") => match self.control.add_json(body) {
                Ok(()) => json(StatusCode::OK, "{}".to_owned()),
                Err(e) => json(StatusCode::BAD_REQUEST, serde_json::json!({ "error": e.to_string() }).to_string()),
            },
            (&Method::POST, "outage") => match std::str::from_utf8(body).unwrap_or_default().trim().parse() {
                Ok(ms) => {
                    self.control.order_outage(Duration::from_millis(ms));
                    json(StatusCode::OK, "{}".to_owned())
                }
                Err(e) => json(StatusCode::BAD_REQUEST, serde_json::json!({ "error": e.to_string() }).to_string()),
            },
            (&Method::DELETE, "faults") => {
                self.control.heal();
                json(StatusCode::OK, "{}".to_owned())
            }
            _ => json(StatusCode::NOT_FOUND, "{}".to_owned()),
        }
    }
}

fn error(status: u16, code: &str) -> Response<Body> {
    let xml = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>injected</Message></Error>");
    let response = Response::builder().status(status).header("content-type", "application/xml");
    response.body(Body::from(xml)).expect("a constant head")
}

fn json(status: StatusCode, text: String) -> Response<Body> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Body::from(text)).expect("a constant head")
}

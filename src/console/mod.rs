//! What the broker says of itself over HTTP: `/metrics` in the Prometheus text format, `/ready`.
//!
//! - **In**: handles of the rooms. **Out**: numbers they keep anyway, read when asked.
//! - **Never does**: change anything; keep numbers of its own.

mod metrics;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::error;

pub use metrics::Sources;

use crate::group::Coordinators;

const PROMETHEUS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, sources: Sources) {
    let groups = sources.groups.clone();
    let registry = Arc::new(metrics::registry(sources));
    let router = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/ready", get(async || "ready\n"))
        .with_state((registry, groups));
    if let Err(e) = axum::serve(listener, router).await {
        error!(error = %e, "the console stopped");
    }
}

type Told = (Arc<prometheus_client::registry::Registry>, Arc<Coordinators>);

async fn metrics_text(State((registry, groups)): State<Told>) -> impl IntoResponse {
    groups.count().await;
    let mut text = String::new();
    // Writing into a string has no way to fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}

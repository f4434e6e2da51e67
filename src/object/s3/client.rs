use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{Builder, ProvideCredentials, Region, RequestChecksumCalculation, ResponseChecksumValidation};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use tokio::time::timeout;
use url::{Host, Url};

use super::Settings;
use super::errors::causes;
use crate::object::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the chain of credentials may take at start: its last link asks the network.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections kept open while nothing uses them. More may be open at once.
const IDLE_CONNECTIONS_MAX: usize = 256;

pub async fn connect(settings: &Settings) -> Result<Client, Error> {
    let http = aws_smithy_http_client::Builder::new()
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let region = RegionProviderChain::first_try(settings.region.clone().map(Region::new));
    let region = match settings.endpoint {
        // Other servers seldom care, and nothing should be asked of AWS for them.
        Some(_) => region.or_else(EnvironmentVariableRegionProvider::new()).or_else(Region::new("us-east-1")),
        None => region.or_default_provider(),
    };
    let mut defaults = aws_config::defaults(BehaviorVersion::latest()).http_client(http).region(region);
    if let Some(credentials) = &settings.credentials {
        defaults = defaults.credentials_provider(credentials.clone());
    }
    let shared = defaults.load().await;
    if shared.region().is_none() {
        return Err(Error::refused("open", "no region: name it in the URL (?region=) or in AWS_REGION"));
    }
    // Without credentials every request would fail later, and say less.
    let credentials = shared.credentials_provider().ok_or_else(|| Error::refused("open", "no credentials"))?;
    let found = timeout(CREDENTIALS_TIMEOUT, credentials.provide_credentials()).await;
    let found = found.map_err(|_| Error::refused("open", "no credentials were found in time"))?;
    found.map_err(|e| Error::refused("open", format!("no credentials: {}", causes(&e))))?;
    let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build();
    let mut config = Builder::from(&shared)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        // The defaults send trailers that servers other than AWS refuse; the checksums here are our own.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(endpoint) = &settings.endpoint {
        config = config.endpoint_url(endpoint).force_path_style(true);
    }
    Ok(Client::from_conf(config.build()))
}

/// Bytes travel unencrypted over a network: only a signature of the payload keeps them from being changed.
pub fn is_open_to_others(endpoint: &str) -> bool {
    let Ok(url) = Url::parse(endpoint) else { return true };
    let loopback = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() != "https" && !loopback
}

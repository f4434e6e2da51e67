use std::sync::Arc;

use url::Url;

use super::zonal::{Bucket, Zonal};
use super::{Classes, Directory, Error, Key, Memory, S3, Store, s3};
use crate::config::StoreUrls;

/// Opens every store of a cluster for a reader in this zone.
///
/// # Errors
/// As [`open`].
pub async fn open_all(urls: &StoreUrls, zone: Option<&str>) -> Result<Arc<dyn Store>, Error> {
    let regional = match &urls.regional {
        Some(url) => Some(open(url.as_str()).await?),
        None => None,
    };
    let mut buckets = Vec::with_capacity(urls.zonal.len());
    for (zone, url) in &urls.zonal {
        buckets.push(Bucket { zone: zone.clone(), store: open(url.as_str()).await? });
    }
    match regional {
        Some(regional) if buckets.is_empty() => Ok(regional),
        regional => Ok(Arc::new(Classes::new(regional, Zonal::new(buckets, zone)))),
    }
}

/// Opens a store by its URL:
///
/// - `s3://bucket/prefix?endpoint=http://host:port&region=name` (both optional; credentials come from the usual AWS
///   chain; with an endpoint the bucket goes into the path),
/// - `file:///directory`,
/// - `memory://`, gone with the process.
///
/// # Errors
/// [`Error::Refused`] names the part of the URL that is wrong.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, Error> {
    let refused = |reason: String| Error::refused("open", reason);
    let parsed = Url::parse(url).map_err(|e| refused(format!("{url:?} is no URL: {e}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(refused("credentials belong in the environment, not in the URL".to_owned()));
    }
    match parsed.scheme() {
        "s3" => Ok(Arc::new(S3::open(s3_settings(&parsed).map_err(refused)?).await?)),
        "file" => {
            no_query(&parsed).map_err(refused)?;
            let path = parsed.to_file_path().map_err(|()| refused(format!("{url:?} names no local directory")))?;
            Ok(Arc::new(Directory::open(path).await?))
        }
        "memory" => {
            no_query(&parsed).map_err(refused)?;
            Ok(Arc::new(Memory::new()))
        }
        other => Err(refused(format!("{other:?} is none of s3, file, memory"))),
    }
}

fn s3_settings(url: &Url) -> Result<s3::Settings, String> {
    let bucket = url.host_str().ok_or("the URL names no bucket")?.to_owned();
    let prefix = url.path().trim_matches('/');
    if !prefix.is_empty() && Key::parse(prefix).is_err() {
        return Err(format!("{prefix:?} is no prefix"));
    }
    let prefix = prefix.to_owned();
    let mut settings = s3::Settings { bucket, prefix, endpoint: None, region: None, credentials: None };
    for (name, value) in url.query_pairs() {
        let field = match &*name {
            "endpoint" => &mut settings.endpoint,
            "region" => &mut settings.region,
            _ => return Err(format!("the URL has an unknown setting {name:?}")),
        };
        if field.replace(value.into_owned()).is_some() {
            return Err(format!("the URL has {name:?} twice"));
        }
    }
    if let Some(endpoint) = &settings.endpoint {
        let parsed = Url::parse(endpoint).map_err(|e| format!("endpoint {endpoint:?} is no URL: {e}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host().is_none() {
            return Err(format!("endpoint {endpoint:?} is neither http nor https"));
        }
    }
    Ok(settings)
}

fn no_query(url: &Url) -> Result<(), String> {
    match url.query_pairs().next() {
        None => Ok(()),
        Some((name, _)) => Err(format!("the URL has an unknown setting {name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<s3::Settings, String> {
        s3_settings(&Url::parse(url).unwrap())
    }

    #[test]
    fn an_s3_url_says_bucket_prefix_endpoint_and_region() {
        let all = settings("s3://records/a/b?endpoint=http://127.0.0.1:9000&region=eu-west-1").unwrap();
        assert_eq!((all.bucket.as_str(), all.prefix.as_str()), ("records", "a/b"));
        assert_eq!(all.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(all.region.as_deref(), Some("eu-west-1"));
        assert_eq!(settings("s3://records").unwrap().prefix, "");
    }

    #[test]
    fn a_wrong_part_of_an_s3_url_is_named() {
        let named = [
            ("s3://b?regoin=x", "regoin"),
            ("s3://b?region=x&region=y", "region"),
            ("s3://b?endpoint=ftp://x", "ftp"),
            ("s3://b?endpoint=host", "host"),
            ("s3://b/a//b", "a//b"),
        ];
        for (url, name) in named {
            assert!(settings(url).unwrap_err().contains(name), "{url}");
        }
    }

    #[tokio::test]
    async fn urls_without_a_store_are_refused() {
        for url in ["", "bucket", "gs://b", "memory://?x=1", "file:///tmp?y=2", "s3://", "s3://key:secret@bucket"] {
            assert!(matches!(open(url).await, Err(Error::Refused { .. })), "{url:?}");
        }
        open("memory://").await.unwrap();
    }
}

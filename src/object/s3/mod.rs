//! S3 and what speaks its protocol, through the AWS SDK.
//!
//! One call is one attempt: the SDK's own retries are off, because a repeated create-if-absent meets its own first
//! success, and only the caller knows what that means. Every attempt has a timeout that covers the body too, which
//! the SDK's timeouts do not.

mod client;
mod errors;

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_sdk_s3::Client;
pub use aws_sdk_s3::config::Credentials;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::{ByteStream, DateTime, DateTimeFormat};
use aws_sdk_s3::types::{ChecksumMode, Delete, ObjectIdentifier};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};

use self::errors::{Effect, causes, classify};
use super::{
    Cursor, Error, Head, Key, Listed, OBJECT_BYTES_MAX, PAGE_KEYS_MAX, Page, Prefix, Start, Store, crc32c, paths,
};
use crate::types::ByteRange;

/// What an attempt may take, beside the time its bytes need.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The slowest transfer that is waited for.
const BYTES_PER_SECOND_MIN: u64 = 2 << 20;

/// Where the objects are.
#[derive(Debug, Clone)]
pub struct Settings {
    pub bucket: String,
    /// Keys are below it; without slashes at its ends, empty for the whole bucket.
    pub prefix: String,
    /// A server other than AWS. The bucket then goes into the path.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// `None` asks the usual chain: environment, profile, web identity, container, instance.
    pub credentials: Option<Credentials>,
}

#[derive(Debug)]
pub struct S3 {
    client: Client,
    bucket: String,
    /// Empty, or ends with a slash.
    prefix: String,
    /// The CRC-32C in the (signed) headers protects the bytes; hashing them again costs 1 ms of CPU per MiB. Only
    /// where nobody on the way can change both.
    sign_payload: bool,
}

impl S3 {
    /// Makes a client; asks nothing of the bucket yet (see [`super::probe`]).
    ///
    /// # Errors
    /// [`Error::Refused`] when no region or no credentials are known.
    pub async fn open(settings: Settings) -> Result<S3, Error> {
        let client = client::connect(&settings).await?;
        let prefix = if settings.prefix.is_empty() { String::new() } else { settings.prefix + "/" };
        let sign_payload = settings.endpoint.as_deref().is_some_and(client::is_open_to_others);
        Ok(S3 { client, bucket: settings.bucket, prefix, sign_payload })
    }

    fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    /// One GET, its body included.
    async fn fetch(&self, key: &Key, range: Option<ByteRange>) -> Result<(Bytes, GetObjectOutput), Error> {
        let mut request = self.client.get_object().bucket(&self.bucket).key(self.name(key));
        let start = range.map_or(0, |range| range.start);
        if let Some(range) = range {
            // Servers read positions as signed numbers. No object comes near.
            let last = range.end().min(i64::MAX as u64) - 1;
            if start > last {
                return Err(Error::OutOfRange { key: key.clone(), start });
            }
            request = request.range(format!("bytes={start}-{last}"));
        }
        // Asked for by a plain header: a mismatch found by the SDK looks like a broken connection, ours does not.
        let request = request.customize().mutate_request(move |http| {
            if range.is_none() {
                http.headers_mut().insert("x-amz-checksum-mode", "ENABLED");
            }
        });
        let sent = timed("get", Effect::Read, 0, request.send()).await?;
        let mut output = sent.map_err(|e| match classify("get", Some(key), Effect::Read, e) {
            Error::OutOfRange { key, .. } => Error::OutOfRange { key, start },
            error => error,
        })?;
        let len = length("get", output.content_length())?;
        if len > range.map_or(OBJECT_BYTES_MAX, |range| range.len) {
            return Err(Error::corrupt(key, format!("{len} bytes are more than there can be")));
        }
        if let Some(range) = range {
            check_range(range, len, output.content_range())?;
        }
        let body = std::mem::take(&mut output.body);
        Ok((timed("get", Effect::Read, len, collect(body, len as usize)).await??, output))
    }

    async fn delete_page(&self, keys: &[Key]) -> Result<(), Error> {
        let key = |key: &Key| ObjectIdentifier::builder().key(self.name(key)).build().expect("the key is set");
        let keys: Vec<_> = keys.iter().map(key).collect();
        let delete = Delete::builder().set_objects(Some(keys)).quiet(true).build().expect("the keys are set");
        let request = self.client.delete_objects().bucket(&self.bucket).delete(delete);
        let output = timed("delete", Effect::Read, 0, request.send()).await?;
        let output = output.map_err(|e| classify("delete", None, Effect::Read, e))?;
        match output.errors().first() {
            None => Ok(()),
            Some(e) => {
                let reason = format!("{}: {}", e.key().unwrap_or("?"), e.message().unwrap_or_default());
                Err(errors::by_code("delete", e.code().unwrap_or_default(), reason))
            }
        }
    }
}

#[async_trait]
impl Store for S3 {
    async fn put_if_absent(&self, key: &Key, bytes: Bytes) -> Result<(), Error> {
        let len = bytes.len() as u64;
        let request = self.client.put_object().bucket(&self.bucket).key(self.name(key)).if_none_match("*");
        let request = request.checksum_crc32_c(BASE64_STANDARD.encode(crc32c(&bytes).to_be_bytes()));
        let request = request.body(ByteStream::from(bytes)).customize();
        let request = if self.sign_payload { request } else { request.disable_payload_signing() };
        let sent = timed("put", Effect::Write, len, request.send()).await?;
        sent.map(drop).map_err(|e| classify("put", Some(key), Effect::Write, e))
    }

    async fn get(&self, key: &Key) -> Result<Bytes, Error> {
        let (bytes, output) = self.fetch(key, None).await?;
        match output.checksum_crc32_c().and_then(parse_crc32c) {
            Some(stored) if stored != crc32c(&bytes) => Err(Error::corrupt(key, "does not match its checksum")),
            _ => Ok(bytes),
        }
    }

    async fn get_range(&self, key: &Key, range: ByteRange) -> Result<Bytes, Error> {
        if range.len == 0 {
            return Ok(Bytes::new());
        }
        Ok(self.fetch(key, Some(range)).await?.0)
    }

    async fn head(&self, key: &Key) -> Result<Head, Error> {
        let request = self.client.head_object().bucket(&self.bucket).key(self.name(key));
        let request = request.checksum_mode(ChecksumMode::Enabled);
        let output = timed("head", Effect::Read, 0, request.send())
            .await?
            .map_err(|e| classify("head", Some(key), Effect::Read, e))?;
        Ok(Head {
            len: length("head", output.content_length())?,
            last_modified: date("head", output.last_modified())?,
            crc32c: output.checksum_crc32_c().and_then(parse_crc32c),
        })
    }

    async fn list(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        let full = format!("{}{}", self.prefix, prefix.as_str());
        let request = self.client.list_objects_v2().bucket(&self.bucket).prefix(full).max_keys(PAGE_KEYS_MAX as i32);
        let request = match start {
            Start::Beginning => request,
            Start::After(key) => request.start_after(self.name(&key)),
            Start::Next(Cursor(token)) => request.continuation_token(token),
        };
        let output = timed("list", Effect::Read, 0, request.send()).await?;
        let output = output.map_err(|e| classify("list", None, Effect::Read, e))?;
        let mut objects = Vec::with_capacity(output.contents().len());
        for object in output.contents() {
            let name = object.key().and_then(|name| name.strip_prefix(&self.prefix));
            let Some(Ok(key)) = name.map(Key::parse) else { continue };
            let (len, last_modified) = (length("list", object.size())?, date("list", object.last_modified())?);
            objects.push(Listed { key, len, last_modified });
        }
        let next = match (output.is_truncated(), output.next_continuation_token()) {
            (Some(true), Some(token)) => Some(Cursor(token.to_owned())),
            (Some(true), None) => return Err(Error::refused("list", "a page that is not the last has no successor")),
            _ => None,
        };
        Ok(Page { objects, next })
    }

    async fn delete(&self, keys: &[Key]) -> Result<(), Error> {
        for page in keys.chunks(PAGE_KEYS_MAX) {
            self.delete_page(page).await?;
        }
        Ok(())
    }

    /// Every reply carries the date; the one asked for here says that there is no such object.
    async fn now(&self) -> Result<SystemTime, Error> {
        let key = paths::absent_key();
        let request = self.client.head_object().bucket(&self.bucket).key(self.name(&key));
        let Err(absent) = timed("now", Effect::Read, 0, request.send()).await? else {
            return Err(Error::refused("now", format!("{key} exists")));
        };
        let header = absent.raw_response().and_then(|response| response.headers().get("date"));
        let date = header.and_then(|text| DateTime::from_str(text, DateTimeFormat::HttpDate).ok());
        match date.and_then(|date| SystemTime::try_from(date).ok()) {
            Some(date) => Ok(date),
            None => Err(classify("now", Some(&key), Effect::Read, absent)),
        }
    }
}

/// Ends an attempt that takes longer than it and its bytes may.
async fn timed<T>(
    operation: &'static str,
    effect: Effect,
    bytes: u64,
    attempt: impl Future<Output = T>,
) -> Result<T, Error> {
    let limit = ATTEMPT_TIMEOUT + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN);
    let done = tokio::time::timeout(limit, attempt).await;
    done.map_err(|_| effect.without_verdict(operation, format!("no reply within {limit:?}")))
}

/// Gathers a body of known length into one buffer; one that came in one piece is not copied.
async fn collect(mut body: ByteStream, len: usize) -> Result<Bytes, Error> {
    let broken = |e| Error::retryable("get", causes(&e));
    let first = body.try_next().await.map_err(broken)?.unwrap_or_default();
    if first.len() == len {
        return Ok(first);
    }
    let mut bytes = BytesMut::with_capacity(len);
    bytes.extend_from_slice(&first);
    while let Some(piece) = body.try_next().await.map_err(broken)? {
        if piece.len() > len - bytes.len() {
            return Err(Error::retryable("get", "a body longer than it said"));
        }
        bytes.extend_from_slice(&piece);
    }
    if bytes.len() < len {
        return Err(Error::retryable("get", "a body shorter than it said"));
    }
    Ok(bytes.freeze())
}

/// A reply to a GET of a range must hold all of it that the object has: who caches it takes it for the whole.
fn check_range(range: ByteRange, len: u64, header: Option<&str>) -> Result<(), Error> {
    let parsed = header.and_then(|header| {
        let (positions, total) = header.strip_prefix("bytes ")?.split_once('/')?;
        Some((positions.split_once('-')?.0.parse::<u64>().ok()?, total.parse::<u64>().ok()?))
    });
    let Some((start, total)) = parsed else {
        return Err(Error::retryable("get", format!("a reply that does not say which range it is: {header:?}")));
    };
    if start != range.start || len != range.end().min(total).saturating_sub(start) {
        return Err(Error::retryable("get", format!("{len} bytes where {range:?} was asked of {total}: {header:?}")));
    }
    Ok(())
}

/// A checksum of the whole object. One of parts (`...-3`) is of no use here, and never ours.
fn parse_crc32c(text: &str) -> Option<u32> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn length(operation: &'static str, len: Option<i64>) -> Result<u64, Error> {
    let len = len.and_then(|len| u64::try_from(len).ok());
    len.ok_or_else(|| Error::retryable(operation, "a reply without a length"))
}

fn date(operation: &'static str, date: Option<&DateTime>) -> Result<SystemTime, Error> {
    let date = date.and_then(|date| SystemTime::try_from(*date).ok());
    date.ok_or_else(|| Error::retryable(operation, "a reply without a date"))
}

#[cfg(test)]
#[path = "s3_test.rs"]
mod tests;

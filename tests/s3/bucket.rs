use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::RwLock;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use s3s::dto::*;
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};

const PAGE_KEYS_MAX: usize = 1000;

/// One bucket in memory. A check and the write it guards happen under one lock.
pub struct Bucket {
    name: String,
    objects: RwLock<BTreeMap<String, Stored>>,
}

#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    crc32c: String,
    last_modified: SystemTime,
}

impl Stored {
    fn e_tag(&self) -> ETag {
        ETag::Strong(self.crc32c.clone())
    }
}

impl Bucket {
    pub fn new(name: String) -> Bucket {
        Bucket { name, objects: RwLock::default() }
    }

    fn check(&self, name: &str) -> S3Result<()> {
        if name == self.name { Ok(()) } else { Err(s3_error!(NoSuchBucket)) }
    }

    fn stored(&self, bucket: &str, key: &str) -> S3Result<Stored> {
        self.check(bucket)?;
        let objects = self.objects.read().expect("nothing panics under this lock");
        objects.get(key).cloned().ok_or_else(|| s3_error!(NoSuchKey))
    }

    fn remove(&self, key: &str) {
        self.objects.write().expect("nothing panics under this lock").remove(key);
    }
}

/// A body that was collected before comes in one piece and is not copied again.
async fn collect(body: Option<StreamingBlob>) -> S3Result<Bytes> {
    let Some(mut body) = body else { return Ok(Bytes::new()) };
    let broken = |e| s3_error!(IncompleteBody, "{e}");
    let first = body.try_next().await.map_err(broken)?.unwrap_or_default();
    let Some(second) = body.try_next().await.map_err(broken)? else { return Ok(first) };
    let mut bytes = BytesMut::from(first);
    bytes.extend_from_slice(&second);
    while let Some(piece) = body.try_next().await.map_err(broken)? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

#[async_trait::async_trait]
impl S3 for Bucket {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        self.check(&input.bucket)?;
        let bytes = collect(input.body).await?;
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
        let crc32c = BASE64_STANDARD.encode(crc.to_be_bytes());
        if input.checksum_crc32c.is_some_and(|claimed| claimed != crc32c) {
            return Err(s3_error!(BadDigest));
        }
        let stored = Stored { bytes, crc32c, last_modified: SystemTime::now() };
        let e_tag = Some(stored.e_tag());
        let mut objects = self.objects.write().expect("nothing panics under this lock");
        if input.if_none_match.is_some_and(|condition| condition.is_any()) && objects.contains_key(&input.key) {
            return Err(s3_error!(PreconditionFailed));
        }
        objects.insert(input.key, stored);
        Ok(S3Response::new(PutObjectOutput { e_tag, ..Default::default() }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let stored = self.stored(&input.bucket, &input.key)?;
        let len = stored.bytes.len() as u64;
        let (bytes, content_range) = match &input.range {
            None => (stored.bytes.clone(), None),
            Some(range) => {
                let range = range.check(len).map_err(|_| s3_error!(InvalidRange))?;
                let header = format!("bytes {}-{}/{len}", range.start, range.end - 1);
                (stored.bytes.slice(range.start as usize..range.end as usize), Some(header))
            }
        };
        let checksum = (input.checksum_mode.is_some() && content_range.is_none()).then(|| stored.crc32c.clone());
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(bytes.len() as i64),
            content_range,
            checksum_crc32c: checksum,
            e_tag: Some(stored.e_tag()),
            last_modified: Some(stored.last_modified.into()),
            body: Some(StreamingBlob::from(Body::from(bytes))),
            ..Default::default()
        }))
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let stored = self.stored(&input.bucket, &input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(stored.bytes.len() as i64),
            checksum_crc32c: input.checksum_mode.map(|_| stored.crc32c.clone()),
            e_tag: Some(stored.e_tag()),
            last_modified: Some(stored.last_modified.into()),
            ..Default::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        self.check(&input.bucket)?;
        if input.delimiter.is_some() {
            return Err(s3_error!(NotImplemented, "no delimiters here"));
        }
        let prefix = input.prefix.clone().unwrap_or_default();
        let after = input.continuation_token.or(input.start_after).unwrap_or_default();
        let from = if after < prefix { Bound::Included(prefix.as_str()) } else { Bound::Excluded(after.as_str()) };
        let page = input.max_keys.map_or(PAGE_KEYS_MAX, |keys| (keys.max(0) as usize).min(PAGE_KEYS_MAX));
        let objects = self.objects.read().expect("nothing panics under this lock");
        let below = objects.range::<str, _>((from, Bound::Unbounded));
        let mut below = below.take_while(|(key, _)| key.starts_with(&prefix)).peekable();
        let contents: Vec<Object> = below.by_ref().take(page).map(|(key, stored)| listed(key, stored)).collect();
        let last = contents.last().and_then(|object| object.key.clone());
        let is_truncated = below.peek().is_some();
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: input.prefix,
            max_keys: Some(page as i32),
            key_count: Some(contents.len() as i32),
            is_truncated: Some(is_truncated),
            next_continuation_token: last.filter(|_| is_truncated),
            contents: Some(contents),
            ..Default::default()
        }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.check(&request.input.bucket)?;
        self.remove(&request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.check(&request.input.bucket)?;
        for object in &request.input.delete.objects {
            self.remove(&object.key);
        }
        Ok(S3Response::new(DeleteObjectsOutput::default()))
    }
}

fn listed(key: &str, stored: &Stored) -> Object {
    Object {
        key: Some(key.to_owned()),
        size: Some(stored.bytes.len() as i64),
        e_tag: Some(stored.e_tag()),
        last_modified: Some(stored.last_modified.into()),
        ..Default::default()
    }
}

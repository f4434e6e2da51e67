use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCacheProperties,
    PsyncIoEngineConfig, RecoverMode, S3FifoConfig,
};

use super::error::OpenError;
use super::key::PartKey;
use super::part::Cut;

/// What an entry costs beside its bytes.
const ENTRY_BYTES: usize = 128;

/// The disk tier is written and forgotten in blocks of this size; a part must fit one.
const BLOCK_BYTES: usize = 16 << 20;

/// A tier on disk for what leaves memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Of this broker alone.
    pub dir: PathBuf,
    /// Several blocks of 16 MiB, or there is room for one at a time.
    pub capacity_bytes: usize,
}

/// The parts that are here: in memory, and behind it on disk where there is a disk tier. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub cache: HybridCache<PartKey, Bytes>,
    /// Held while the disk tier is in use.
    _lock: Option<Arc<File>>,
}

impl Parts {
    /// # Errors
    /// The directory cannot be used.
    pub async fn open(capacity_bytes: usize, cut: &Cut, root: &str, disk: Option<&Disk>) -> Result<Parts, OpenError> {
        // A shard must hold several parts, or one part pushes out all others.
        let shards = (capacity_bytes as u64 / (8 * cut.part_bytes_max())).clamp(1, 8) as usize;
        let builder = HybridCacheBuilder::new()
            .with_name("parts")
            // What is in memory at the end is fetched again: stopping should not take as long as writing it.
            .with_flush_on_close(false)
            .memory(capacity_bytes)
            .with_shards(shards)
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|_: &PartKey, bytes: &Bytes| ENTRY_BYTES + bytes.len())
            .storage();
        let Some(disk) = disk else {
            let failed = |e: foyer::Error| OpenError { dir: "none".to_owned(), reason: e.to_string() };
            let cache = builder.build().await.map_err(failed)?;
            return Ok(Parts { cache, _lock: None });
        };
        // Names are unique in one incarnation of one cluster, and parts are those of one way to cut.
        let dir = disk.dir.join(format!("{root}.{}.{}", cut.head_bytes, cut.chunk_bytes));
        let failed = |reason: String| OpenError { dir: dir.display().to_string(), reason };
        fs::create_dir_all(&dir).map_err(|e| failed(e.to_string()))?;
        let lock = File::create(dir.join("lock")).map_err(|e| failed(e.to_string()))?;
        lock.try_lock().map_err(|e| failed(format!("another broker uses it: {e}")))?;
        let device = FsDeviceBuilder::new(&dir).with_capacity(disk.capacity_bytes).build();
        let device = device.map_err(|e| failed(e.to_string()))?;
        let engine = BlockEngineConfig::<PartKey, Bytes, HybridCacheProperties>::new(device)
            .with_block_size(BLOCK_BYTES)
            // Two of the largest parts at least; what comes faster than the disk takes it is not kept there.
            .with_buffer_pool_size(4 * BLOCK_BYTES)
            .with_submit_queue_size_threshold(4 * BLOCK_BYTES);
        let cache = builder
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(engine)
            .with_recover_mode(RecoverMode::Quiet)
            .build()
            .await
            .map_err(|e| failed(e.to_string()))?;
        Ok(Parts { cache, _lock: Some(Arc::new(lock)) })
    }
}

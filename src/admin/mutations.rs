use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::admin::{Admin, Context, Error};
use crate::quota::Quotas;
use crate::zone;

/// What a request makes and deletes, taken from what its client may (KIP-599).
pub(super) struct Mutations {
    quotas: Arc<Quotas>,
    client_id: String,
    /// Since the version whose clients know THROTTLING_QUOTA_EXCEEDED; others are made to wait for what they got.
    strict: bool,
    wait_ms: AtomicU64,
}

impl Mutations {
    pub fn of(admin: &Admin, context: &Context, strict: bool) -> Mutations {
        let client_id = context.client_id.as_deref().unwrap_or("");
        let view = admin.cluster.view();
        let client_id = zone::without_zone(client_id, &admin.settings.zones, &zone::known(&view)).into_owned();
        Mutations { quotas: admin.quotas.clone(), client_id, strict, wait_ms: AtomicU64::new(0) }
    }

    /// # Errors
    /// The client has taken more than its share, and is to come again.
    pub fn take(&self, partitions: usize) -> Result<(), Error> {
        let taken = self.quotas.mutate(&self.client_id, partitions as f64, self.strict);
        let (Ok(wait) | Err(wait)) = taken;
        self.wait_ms.fetch_max(wait.as_millis() as u64, Relaxed);
        taken.map(drop).map_err(|_| Error::ThrottlingQuotaExceeded)
    }

    /// How long the client is to be left waiting, told in the answer.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms.load(Relaxed))
    }
}

use std::sync::{Arc, RwLock};

use bytes::{BufMut, Bytes, BytesMut};
use milepost_raft::{Corrupt, LogPosition, StateMachine};

use crate::cluster::{RootAnswer, RootEntry, RootState};

const SNAPSHOT_VERSION: u8 = 1;

/// The root shard's replica: the applied state behind a cheap view.
#[derive(Default)]
pub struct RootMachine {
    state: RwLock<Arc<RootState>>,
}

impl RootMachine {
    pub fn view(&self) -> Arc<RootState> {
        self.state.read().expect("no writer panics").clone()
    }

    /// # Errors
    /// Bytes of another version or damaged ones.
    pub fn decode(snapshot: &[u8]) -> Result<RootState, Corrupt> {
        match snapshot.split_first() {
            Some((&SNAPSHOT_VERSION, body)) => rmp_serde::from_slice(body).map_err(|e| Corrupt(e.to_string())),
            Some((version, _)) => Err(Corrupt(format!("root snapshot version {version} is not known"))),
            None => Err(Corrupt("root snapshot is empty".into())),
        }
    }
}

impl StateMachine for RootMachine {
    type Response = RootAnswer;

    fn apply(&self, _at: LogPosition, payload: Bytes) -> Result<RootAnswer, Corrupt> {
        let entry = RootEntry::decode(&payload).map_err(|e| Corrupt(e.to_string()))?;
        let mut state = self.state.write().expect("no writer panics");
        Ok(Arc::make_mut(&mut state).apply(entry))
    }

    fn snapshot(&self) -> Box<dyn FnOnce() -> Bytes + Send> {
        let state = self.view();
        Box::new(move || {
            let mut out = BytesMut::new().writer();
            out.get_mut().put_u8(SNAPSHOT_VERSION);
            rmp_serde::encode::write(&mut out, &*state).expect("writing to memory does not fail");
            out.into_inner().freeze()
        })
    }

    fn restore(&self, _at: LogPosition, snapshot: Bytes) -> Result<(), Corrupt> {
        let state = Self::decode(&snapshot)?;
        *self.state.write().expect("no writer panics") = Arc::new(state);
        Ok(())
    }
}

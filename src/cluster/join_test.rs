use std::sync::Arc;

use super::*;
use crate::object::Memory;
use crate::object::fault::{Fault, Faulty};

struct Directory {
    dir: tempfile::TempDir,
    store: Faulty,
}

impl Directory {
    fn new(store: &Faulty) -> Directory {
        Directory { dir: tempfile::tempdir().unwrap(), store: store.clone() }
    }

    /// One start under the cluster id "c", without seeds.
    async fn start(&self) -> Result<(Identity, Marker), JoinError> {
        self.start_as(Some("c")).await
    }

    async fn start_as(&self, cluster_id: Option<&str>) -> Result<(Identity, Marker), JoinError> {
        let (host, internal) = ("h".to_owned(), "h:1".to_owned());
        let registration = Registration {
            broker: 0,
            node: 0,
            zone: String::new(),
            host,
            port: 1,
            internal,
            listeners: Vec::new(),
            life: 0,
        };
        let (store, data_dir) = (&self.store, self.dir.path());
        Start { store, data_dir, seeds: &[], registration: &registration, cluster_id }.establish().await
    }

    fn identity(&self) -> Option<Identity> {
        Identity::load(self.dir.path()).unwrap()
    }

    /// A start that stops after the identity is written and before the claim has any effect.
    async fn stop_before_the_claim(&self) -> Identity {
        self.store.next_put(Fault::Refused);
        self.start().await.unwrap_err();
        self.identity().expect("written before the claim")
    }
}

fn store() -> Faulty {
    Faulty::new(Arc::new(Memory::new()), 1)
}

#[tokio::test]
async fn a_founder_comes_back_as_itself() {
    let founder = Directory::new(&store());
    let founded = founder.start().await.unwrap();
    assert!(founded.0.founder);
    assert_eq!(founded.1.founder, founded.0.directory);
    assert_eq!(founder.start().await.unwrap(), founded);
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_founds() {
    let founder = Directory::new(&store());
    founder.store.next_put(Fault::LostReply);
    let (identity, marker) = founder.start().await.unwrap();
    assert_eq!(marker.founder, identity.directory);
}

#[tokio::test]
async fn a_claim_that_lands_after_the_restart_is_the_founders_own() {
    let founder = Directory::new(&store());
    let identity = founder.stop_before_the_claim().await;
    // The next start finds no marker, and the claim of the first lands before its own.
    let gate = crate::object::fault::Gate::default();
    founder.store.next_put(Fault::Gate(gate.clone()));
    let late = async {
        gate.arrival().await;
        let deadline = Instant::now() + STORE_TIMEOUT;
        marker::claim(&founder.store, "c", &identity.directory, deadline).await.unwrap();
        gate.open();
    };
    let (started, ()) = tokio::join!(founder.start(), late);
    assert_eq!(started.unwrap().0, identity);
}

#[tokio::test]
async fn of_two_founders_under_one_configured_id_the_marker_names_one() {
    let store = store();
    let (first, second) = (Directory::new(&store), Directory::new(&store));
    second.stop_before_the_claim().await;
    let founded = first.start().await.unwrap();
    // It has the right cluster id and node id 1, and must not found all the same.
    assert!(matches!(second.start().await, Err(JoinError::NoSeeds { .. })));
    assert_eq!(second.identity(), None);
    assert_eq!(first.start().await.unwrap(), founded);
}

#[tokio::test]
async fn a_founder_that_ran_refuses_a_bucket_of_another_founder() {
    let (first, second) = (Directory::new(&store()), Directory::new(&store()));
    let (mut identity, _) = first.start().await.unwrap();
    identity.begin_life(first.dir.path()).unwrap();
    second.start().await.unwrap();
    let moved = Directory { dir: first.dir, store: second.store };
    assert!(matches!(moved.start().await, Err(JoinError::OtherFounder { .. })));
    assert_eq!(moved.identity(), Some(identity));
}

#[tokio::test]
async fn a_configured_id_is_held_against_bucket_and_directory() {
    let founder = Directory::new(&store());
    founder.stop_before_the_claim().await;
    assert!(matches!(founder.start_as(Some("d")).await, Err(JoinError::ConfiguredOther { owner: "data_dir", .. })));
    let (identity, _) = founder.start_as(None).await.unwrap();
    assert_eq!(identity.cluster_id, "c");
    assert!(matches!(founder.start_as(Some("d")).await, Err(JoinError::ConfiguredOther { owner: "the bucket", .. })));
}

#[tokio::test]
async fn a_directory_that_ran_refuses_an_emptied_bucket() {
    let founder = Directory::new(&store());
    let (mut identity, _) = founder.start().await.unwrap();
    identity.begin_life(founder.dir.path()).unwrap();
    let moved = Directory { dir: founder.dir, store: store() };
    assert!(matches!(moved.start().await, Err(JoinError::NoMarker { .. })));
}

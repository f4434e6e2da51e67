//! What a log reader sees of nodes that stop in good order: nothing that asks for attention.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::testing::Cluster;

/// Collects what the broker's own filter lets through above "info": warnings of ours, errors of openraft.
#[derive(Clone, Default)]
struct Complaints(Arc<Mutex<Vec<String>>>);

impl Subscriber for Complaints {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let most = if metadata.target().starts_with("openraft") { Level::ERROR } else { Level::WARN };
        metadata.is_event() && *metadata.level() <= most
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} {}", event.metadata().level(), event.metadata().target());
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("strings take everything");
    }
}

#[test]
fn nodes_that_stop_in_good_order_do_not_complain() {
    let complaints = Complaints::default();
    let mut cluster = Cluster::start_watched(3, 4, |_| {}, complaints.clone());
    cluster.leader().write(b"x").expect("committed");
    while let Some(id) = cluster.nodes.first().map(|node| node.id()) {
        let node = cluster.take(id);
        let stopping = node.node.clone();
        // On a thread of the runtime: those are watched.
        let stopping = node.runtime.spawn(async move { stopping.shutdown().await });
        node.run(stopping).expect("no panic");
    }
    assert_eq!(*complaints.0.lock().unwrap(), Vec::<String>::new());
}

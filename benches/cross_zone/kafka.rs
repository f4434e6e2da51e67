//! Apache Kafka: three brokers, each KRaft controller as well, replication factor 3, two in-sync replicas at least. With
//! follower fetching, consumers are sent to the replica of their rack.
//!
//! Producers and consumers have a listener each, so that their bytes can be told apart by port.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;

use crate::ground::{Ground, ZONES, Zone, address, zone_name};
use crate::load;
use crate::process::{self, Owned};
use crate::sockets;
use crate::store::Requests;
use crate::suite::Which;
use crate::system::{BytesByKind, Role, System};

const PRODUCE_PORT: u16 = 9092;
const FETCH_PORT: u16 = 9093;
const REPLICATION_PORT: u16 = 9094;
const CONTROLLER_PORT: u16 = 9095;
const KINDS: [(u16, &str); 4] = [
    (PRODUCE_PORT, "produce"),
    (FETCH_PORT, "fetch"),
    (REPLICATION_PORT, "replication"),
    (CONTROLLER_PORT, "controller"),
];
const HEAP: &str = "-Xmx1g";
const CLUSTER_ID: &str = "bWlsZXBvc3Qta2Fma2EtMQ";

pub struct Kafka {
    class_path: String,
    clients: PathBuf,
    follower_fetching: bool,
    data: tempfile::TempDir,
    brokers: Vec<Owned>,
}

impl Kafka {
    pub fn new(clients: PathBuf, follower_fetching: bool) -> Result<Kafka> {
        let (class_path, data) = (class_path()?, tempfile::tempdir()?);
        Ok(Kafka { class_path, clients, follower_fetching, data, brokers: Vec::new() })
    }

    fn path(&self, zone: Zone, suffix: &str) -> PathBuf {
        self.data.path().join(format!("broker-{}{suffix}", zone + 1))
    }

    fn java(&self, ground: &Ground, zone: Zone, log: &str) -> Result<Command> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path(zone, log))?;
        let mut command = process::command(&ground.zone(zone), "java");
        command.args([HEAP, "-Dlog4j2.level=WARN", "-cp", &self.class_path]);
        command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null());
        Ok(command)
    }

    /// Writes what a broker needs before its first start.
    fn format(&self, ground: &Ground, zone: Zone) -> Result<Owned> {
        fs::create_dir_all(self.path(zone, ""))?;
        fs::write(self.path(zone, ".properties"), self.properties(zone))?;
        let mut command = self.java(ground, zone, ".format.log")?;
        command.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]);
        command.arg(self.path(zone, ".properties"));
        Owned::spawn(command)
    }

    fn launch(&self, ground: &Ground, zone: Zone) -> Result<Owned> {
        let mut command = self.java(ground, zone, ".log")?;
        command.arg("kafka.Kafka").arg(self.path(zone, ".properties"));
        Owned::spawn(command)
    }

    fn properties(&self, zone: Zone) -> String {
        let host = address(zone);
        let voters: Vec<String> =
            (0..ZONES).map(|zone| format!("{}@{}:{CONTROLLER_PORT}", zone + 1, address(zone))).collect();
        let listener = |name: &str, port: u16| format!("{name}://{host}:{port}");
        let listeners = [
            listener("PRODUCE", PRODUCE_PORT),
            listener("FETCH", FETCH_PORT),
            listener("REPLICATION", REPLICATION_PORT),
            listener("CONTROLLER", CONTROLLER_PORT),
        ];
        let mut lines = vec![
            format!("node.id={}", zone + 1),
            "process.roles=broker,controller".to_owned(),
            format!("listeners={}", listeners.join(",")),
            "listener.security.protocol.map=PRODUCE:PLAINTEXT,FETCH:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT"
                .to_owned(),
            "inter.broker.listener.name=REPLICATION".to_owned(),
            "controller.listener.names=CONTROLLER".to_owned(),
            format!("controller.quorum.voters={}", voters.join(",")),
            format!("log.dirs={}", self.path(zone, "").display()),
            format!("broker.rack={}", zone_name(zone)),
            "default.replication.factor=3".to_owned(),
            "min.insync.replicas=2".to_owned(),
        ];
        if self.follower_fetching {
            let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
            lines.push(format!("replica.selector.class={selector}"));
        }
        lines.join("\n") + "\n"
    }

    async fn wait_ready(&self, ground: &Ground) -> Result<()> {
        for zone in 0..ZONES {
            load::wait_brokers(&self.clients, ground, zone, &self.bootstrap(zone, Role::Producer), ZONES).await?;
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl System for Kafka {
    fn name(&self) -> String {
        if self.follower_fetching { Which::KafkaFollowerFetching } else { Which::Kafka }.name().to_owned()
    }

    async fn start(&mut self, ground: &Ground) -> Result<()> {
        let formats: Vec<Owned> = (0..ZONES).map(|zone| self.format(ground, zone)).collect::<Result<_>>()?;
        for format in formats {
            format.finish().await.context("formatting the storage")?;
        }
        for zone in 0..ZONES {
            self.brokers.push(self.launch(ground, zone)?);
        }
        self.wait_ready(ground).await
    }

    fn bootstrap(&self, zone: Zone, role: Role) -> String {
        let port = if role == Role::Producer { PRODUCE_PORT } else { FETCH_PORT };
        format!("{}:{port}", address(zone))
    }

    fn pids(&self) -> Vec<u32> {
        self.brokers.iter().map(Owned::pid).collect()
    }

    fn bytes_by_kind(&self, ground: &Ground) -> Result<BytesByKind> {
        sockets::sent_by_port(ground, &KINDS)
    }

    fn store_requests(&self, _: &Ground) -> Result<Vec<Requests>> {
        Ok(Vec::new())
    }

    async fn replace_broker(&mut self, ground: &Ground, zone: Zone) -> Result<()> {
        // The old one has to end before the new one can have its addresses.
        drop(self.brokers.remove(zone));
        fs::remove_dir_all(self.path(zone, ""))?;
        self.format(ground, zone)?.finish().await.context("formatting the storage")?;
        let fresh = self.launch(ground, zone)?;
        self.brokers.insert(zone, fresh);
        Ok(())
    }
}

/// Kafka's own server from Maven Central, fetched when it is not there yet.
fn class_path() -> Result<String> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let script = ". ./kafka_cluster.sh && cluster_build >&2 && cat \"$KAFKA_CLASSPATH\"";
    let output = Command::new("bash").args(["-c", script]).current_dir(clients).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "Kafka could not be fetched");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

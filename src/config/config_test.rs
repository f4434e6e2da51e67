use std::fs;

use clap::{CommandFactory, Parser};

use super::*;
use crate::types::StorageClass;

/// Loads from flags, variables and the text of a file.
fn load(flags: &[&str], variables: &[(&str, &str)], file: Option<&str>) -> Result<Config, Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("milepost.toml");
    let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    if let Some(text) = file {
        fs::write(&path, text).unwrap();
        flags.push(format!("--config={}", path.display()));
    }
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Config::load_from(parse(&flags), variables)
}

fn parse(flags: &[String]) -> ServeArgs {
    let words = ["milepost", "serve"].into_iter().chain(flags.iter().map(String::as_str));
    match Cli::try_parse_from(words).unwrap().command {
        Command::Serve(args) => *args,
        other => panic!("not serve: {other:?}"),
    }
}

fn refused_key(flags: &[&str]) -> &'static str {
    match load(flags, &[], None) {
        Err(Error::Invalid { key, .. }) => key,
        other => panic!("{flags:?}: {other:?}"),
    }
}

#[test]
fn a_single_broker_needs_no_settings() {
    let config = load(&[], &[], None).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:9092");
    assert_eq!(config.advertise, config.listen);
    assert_eq!(config.internal_listen.to_string(), "127.0.0.1:9192");
    assert_eq!(config.zone.as_deref(), Some("local"));
    let store = config.store.regional.as_ref().unwrap();
    assert_eq!((store.scheme(), config.store.zonal.len()), ("file", 0));
    assert!(store.path().ends_with("/milepost-data/objects/"));
    assert_eq!(config.message_max_bytes, 1_048_588);
    assert_eq!(config.default_replication_factor, -1);
    assert!(config.auto_create_topics);
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = Some("puts_burst = 3\nzone = \"file\"\nobject_bytes = \"2MiB\"\ncache_bytes = 9000000");
    let variables = [("MILEPOST_ZONE", "environment"), ("MILEPOST_OBJECT_BYTES", "3MiB")];
    let config = load(&["--object-bytes", "1MiB"], &variables, file).unwrap();
    assert_eq!(config.object_bytes, 1 << 20);
    assert_eq!(config.zone.as_deref(), Some("environment"));
    assert_eq!(config.puts_burst, 3);
    assert_eq!(config.cache_bytes, 9_000_000);
    assert_eq!(config.puts_per_second, 10.0);
}

#[test]
fn every_setting_has_one_name_in_all_sources() {
    let values = [
        ("broker_id", "7", "7"),
        ("zone", "az1", "\"az1\""),
        ("listen", "0.0.0.0:1", "\"0.0.0.0:1\""),
        ("advertise", "a:1", "\"a:1\""),
        ("internal_listen", "0.0.0.0:2", "\"0.0.0.0:2\""),
        ("internal_advertise", "a:2", "\"a:2\""),
        ("seeds", "b:2,c:2", "[\"b:2\", \"c:2\"]"),
        ("data_dir", "/data", "\"/data\""),
        ("store", "s3://bucket/prefix", "\"s3://bucket/prefix\""),
        ("store_compare_every", "10min", "\"10min\""),
        ("puts_per_second", "2.5", "2.5"),
        ("puts_burst", "5", "5"),
        ("hedge_percent", "2.5", "2.5"),
        ("object_bytes", "1MiB", "\"1MiB\""),
        ("memory_bytes_max", "300MiB", "\"300MiB\""),
        ("cache_bytes", "20MiB", "\"20MiB\""),
        ("cache_disk_dir", "/cache", "\"/cache\""),
        ("cache_disk_bytes", "1GiB", "\"1GiB\""),
        ("cluster_id", "abc", "\"abc\""),
        ("num_partitions", "4", "4"),
        ("default_replication_factor", "2", "2"),
        ("auto_create_topics", "false", "false"),
        ("group_initial_rebalance_delay", "0s", "\"0s\""),
        ("group_min_session_timeout", "1s", "\"1s\""),
        ("group_max_session_timeout", "1h", "\"1h\""),
        ("group_max_size", "50", "50"),
        ("group_consumer_session_timeout", "30s", "\"30s\""),
        ("group_consumer_heartbeat_interval", "1s", "\"1s\""),
        ("group_consumer_max_size", "60", "60"),
        ("group_consumer_assignors", "range,uniform", "[\"range\", \"uniform\"]"),
        ("group_consumer_migration_policy", "upgrade", "\"upgrade\""),
        ("group_share_session_timeout", "30s", "\"30s\""),
        ("group_share_heartbeat_interval", "1s", "\"1s\""),
        ("group_share_max_size", "60", "60"),
        ("group_share_record_lock_duration", "20s", "\"20s\""),
        ("group_share_delivery_count_limit", "3", "3"),
        ("group_share_partition_max_record_locks", "300", "300"),
        ("offsets_retention", "2days", "\"2days\""),
        ("offsets_topic_partitions", "10", "10"),
        ("transaction_max_timeout", "1h", "\"1h\""),
        ("transactional_id_expiration", "1day", "\"1day\""),
        ("transaction_topic_partitions", "10", "10"),
        ("message_max_bytes", "2000", "2000"),
        ("request_bytes_max", "10MiB", "\"10MiB\""),
        ("connections_max", "9", "9"),
        ("connections_max_idle", "30s", "\"30s\""),
        ("metrics_listen", "0.0.0.0:3", "\"0.0.0.0:3\""),
        ("zone_cidrs", "10.1.0.0/16=az1,10.2.0.0/16=az2", "[\"10.1.0.0/16=az1\", \"10.2.0.0/16=az2\"]"),
        ("zone_listeners", "az1=h:4@b:5,az2=h:5", "[\"az1=h:4@b:5\", \"az2=h:5\"]"),
        ("zone_aliases", "use1-az4=az1,use1-az6=az2", "[\"use1-az4=az1\", \"use1-az6=az2\"]"),
        ("log_filter", "debug", "\"debug\""),
        ("log_format", "json", "\"json\""),
    ];
    let flags: Vec<String> =
        values.iter().map(|(key, value, _)| format!("--{}={value}", key.replace('_', "-"))).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let names: Vec<String> = values.iter().map(|(key, ..)| format!("MILEPOST_{}", key.to_uppercase())).collect();
    let variables: Vec<_> = names.iter().zip(&values).map(|(name, (_, value, _))| (name.as_str(), *value)).collect();
    let file: String = values.iter().map(|(key, _, value)| format!("{key} = {value}\n")).collect();

    let from_flags = load(&flags, &[], None).unwrap();
    assert_eq!(from_flags.seeds.len(), 2);
    assert_eq!(from_flags.zone_cidrs.len(), 2);
    assert_eq!(load(&[], &variables, None).unwrap(), from_flags);
    assert_eq!(load(&[], &[], Some(&file)).unwrap(), from_flags);

    let command = Cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    let known = serve.get_arguments().filter(|argument| argument.get_id() != "config");
    assert_eq!(known.count(), values.len(), "a setting is missing from this test");
}

#[test]
fn sessions_and_groups_have_sensible_bounds() {
    for flags in [
        &["--group-min-session-timeout=1h"][..],
        &["--group-max-size=0"],
        &["--group-consumer-max-size=0"],
        &["--group-consumer-heartbeat-interval=45s"],
        &["--group-consumer-heartbeat-interval=0s"],
        &["--group-share-max-size=0"],
        &["--group-share-heartbeat-interval=45s"],
        &["--group-share-heartbeat-interval=0s"],
        &["--group-share-record-lock-duration=0s"],
        &["--group-share-delivery-count-limit=11"],
        &["--group-share-partition-max-record-locks=0"],
        &["--offsets-topic-partitions=0"],
        &["--offsets-topic-partitions=1001"],
    ] {
        assert!(matches!(load(flags, &[], None), Err(Error::Invalid { .. })), "{flags:?}");
    }
}

#[test]
fn an_unknown_key_of_the_file_is_named() {
    let error = load(&[], &[], Some("broker_id = 1\nput_burst = 3")).unwrap_err();
    assert!(matches!(error, Error::File { .. }));
    assert!(error.to_string().contains("put_burst"), "{error}");
}

#[test]
fn a_bad_value_is_named_with_its_source() {
    let error = load(&[], &[("MILEPOST_OBJECT_BYTES", "plenty")], None).unwrap_err();
    assert!(error.to_string().starts_with("MILEPOST_OBJECT_BYTES: "), "{error}");
    let error = load(&[], &[], Some("listen = \"nowhere\"")).unwrap_err();
    assert!(error.to_string().contains("listen"), "{error}");
    let error = load(&["--config=/does/not/exist"], &[], None).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }));
}

#[test]
fn the_environment_may_name_the_file_and_things_that_are_not_ours() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("milepost.toml");
    fs::write(&path, "puts_burst = 3").unwrap();
    let variables = [
        ("MILEPOST_CONFIG".to_owned(), path.display().to_string()),
        ("MILEPOST_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned()),
        ("HOME".to_owned(), "/root".to_owned()),
    ];
    let config = Config::load_from(ServeArgs::default(), variables).unwrap();
    assert_eq!(config.puts_burst, 3);
    assert_eq!(config.ignored_environment, ["MILEPOST_SERVICE_HOST"]);
}

#[test]
fn impossible_combinations_are_refused_with_their_key() {
    let cases: &[(&[&str], &str)] = &[
        (&["--listen=0.0.0.0:9092"], "advertise"),
        (&["--advertise=0.0.0.0:9092"], "advertise"),
        (&["--internal-listen=[::]:9192"], "internal_advertise"),
        (&["--internal-listen=127.0.0.1:9092"], "internal_listen"),
        (&["--metrics-listen=0.0.0.0:9192"], "metrics_listen"),
        (&["--seeds=127.0.0.1:9193"], "store"),
        (&["--seeds=127.0.0.1:9193", "--store=memory://"], "store"),
        (&["--store=ftp://host/dir"], "store"),
        (&["--seeds=10.0.0.2:9192", "--store=s3://bucket"], "internal_advertise"),
        (&["--store=az1=file:///a,az2=file:///b"], "store"),
        (&["--store=az1=file:///a,az2=file:///b,az1=file:///c"], "store"),
        (&["--store=az1=file:///a,az2=file:///b,az3=file:///a"], "store"),
        (&["--store=file:///a", "--store=file:///b"], "store"),
        (&["--store-compare-every=1ms"], "store_compare_every"),
        (&["--memory-bytes-max=50MiB"], "memory_bytes_max"),
        (&["--message-max-bytes=100MiB"], "message_max_bytes"),
        (&["--request-bytes-max=3GiB", "--memory-bytes-max=4GiB"], "request_bytes_max"),
        (&["--cache-bytes=1MiB"], "cache_bytes"),
        (&["--cache-disk-dir=/x"], "cache_disk_bytes"),
        (&["--cache-disk-bytes=1GiB"], "cache_disk_dir"),
        (&["--cache-disk-dir=/x", "--cache-disk-bytes=1MiB"], "cache_disk_bytes"),
        (&["--object-bytes=0"], "object_bytes"),
        (&["--puts-per-second=0"], "puts_per_second"),
        (&["--puts-per-second=NaN"], "puts_per_second"),
        (&["--puts-burst=0"], "puts_burst"),
        (&["--hedge-percent=101"], "hedge_percent"),
        (&["--hedge-percent=NaN"], "hedge_percent"),
        (&["--broker-id=-1"], "broker_id"),
        (&["--num-partitions=0"], "num_partitions"),
        (&["--default-replication-factor=0"], "default_replication_factor"),
        (&["--cluster-id=a/b"], "cluster_id"),
        (&["--connections-max-idle=0s"], "connections_max_idle"),
        (&["--zone-cidrs=10.0.0.0/8=a,10.0.0.0/8=b"], "zone_cidrs"),
        (&["--zone-listeners=a=h:1,a=h:2"], "zone_listeners"),
        (&["--zone-listeners=a=h:1,b=h:1"], "zone_listeners"),
        (&["--listen=h:1", "--zone-listeners=a=h:1"], "zone_listeners"),
        (&["--zone-aliases=x=a,x=b"], "zone_aliases"),
    ];
    for (flags, key) in cases {
        assert_eq!(refused_key(flags), *key, "{flags:?}");
    }
}

#[test]
fn brokers_on_one_machine_may_be_seeds_of_each_other() {
    let config = load(&["--seeds=127.0.0.1:9193,localhost:9194", "--store=file:///tmp/objects"], &[], None);
    assert_eq!(config.unwrap().seeds.len(), 2);
    assert_eq!(load(&["--zone="], &[], None).unwrap().zone, None);
    assert!(load(&["--listen=127.0.0.1:0", "--internal-listen=127.0.0.1:0"], &[], None).is_ok());
}

#[test]
fn each_zone_may_have_a_bucket_beside_a_regional_store_or_alone() {
    let said = "az1=s3://one?region=a,az2=s3://two,az3=s3://three";
    let zonal = load(&["--store", said], &[], None).unwrap();
    assert_eq!(zonal.store.to_string(), said);
    assert_eq!(zonal.store.default_class(), StorageClass::Zonal);
    assert!(!zonal.store.has(StorageClass::Regional));
    let table = "[store]\naz1 = \"s3://one?region=a\"\naz2 = \"s3://two\"\naz3 = \"s3://three\"";
    assert_eq!(load(&[], &[], Some(table)).unwrap().store, zonal.store);
    let flags: Vec<String> = said.split(',').map(|one| format!("--store={one}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--store=s3://all"]).collect();
    let both = load(&flags, &[], None).unwrap();
    assert_eq!((both.store.zonal, both.store.regional.is_some()), (zonal.store.zonal, true));
    let list = "store = [\"s3://all\", \"az1=s3://one?region=a\", \"az2=s3://two\", \"az3=s3://three\"]";
    let both = load(&[], &[], Some(list)).unwrap();
    assert_eq!(both.store.default_class(), StorageClass::Regional);
    assert!(StorageClass::ALL.iter().all(|class| both.store.has(*class)));
}

#[test]
fn the_other_commands_are_understood() {
    let command = |words: &[&str]| Cli::try_parse_from([&["milepost"], words].concat()).unwrap().command;
    assert!(matches!(command(&["inspect", "raft-log", "dir"]), Command::Inspect(Inspect::RaftLog { .. })));
    let object = command(&["inspect", "object", "s3://bucket/prefix", "wal/key"]);
    assert!(matches!(object, Command::Inspect(Inspect::Object { key, .. }) if key == "wal/key"));
    let audit = command(&["audit", "--bootstrap", "a:1,b:2", "--store", "file:///dir"]);
    assert!(matches!(audit, Command::Audit { bootstrap, store: Some(_), copies: false } if bootstrap.len() == 2));
    Cli::command().debug_assert();
}

use super::*;

async fn open() -> (tempfile::TempDir, Directory) {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).await.unwrap();
    (root, directory)
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.collect()
}

#[tokio::test]
async fn a_write_that_was_cut_off_is_no_object() {
    let (root, directory) = open().await;
    let cut_off = root.path().join(INCOMING).join("half");
    fs::write(&cut_off, "ha").unwrap();
    assert_eq!(directory.list(&Prefix::all(), "").unwrap().objects, []);

    // Another process may still be writing it, until it is old.
    Directory::open(root.path()).await.unwrap();
    assert!(cut_off.exists());
    let old = SystemTime::now() - 2 * ABANDONED_AFTER;
    File::options().write(true).open(&cut_off).unwrap().set_modified(old).unwrap();
    Directory::open(root.path()).await.unwrap();
    assert!(!cut_off.exists());
}

#[tokio::test]
async fn directories_go_with_their_last_object() {
    let (root, directory) = open().await;
    let keys = ["a/b/1", "a/2"].map(|text| Key::parse(text).unwrap());
    for key in &keys {
        directory.put_if_absent(key, Bytes::from_static(b"x")).await.unwrap();
    }
    Store::delete(&directory, &keys[..1]).await.unwrap();
    assert_eq!(names(&root.path().join("a")), ["2"]);
    Store::delete(&directory, &keys).await.unwrap();
    assert_eq!(names(root.path()), [INCOMING]);
    assert!(names(&root.path().join(INCOMING)).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_survive_deletes_that_take_their_directory() {
    let (_root, directory) = open().await;
    let key = |number: u32| Key::parse(&format!("shared/{number}")).unwrap();
    let churn = (0..8).map(|number| {
        let (directory, key) = (directory.clone(), key(number));
        tokio::spawn(async move {
            for _ in 0..25 {
                directory.put_if_absent(&key, Bytes::from_static(b"x")).await?;
                Store::delete(&directory, std::slice::from_ref(&key)).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for writer in futures::future::join_all(churn).await {
        // Out of luck eight times in a row is an answer too, as long as it says that nothing was written.
        assert!(matches!(writer.unwrap(), Ok(()) | Err(Error::Retryable { .. })));
    }
}

#[tokio::test]
async fn a_key_below_an_object_is_refused() {
    let (_root, directory) = open().await;
    let [above, below] = ["a", "a/b"].map(|text| Key::parse(text).unwrap());
    directory.put_if_absent(&above, Bytes::new()).await.unwrap();
    let refused = directory.put_if_absent(&below, Bytes::new()).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
}

//! `milena cluster info`.

use super::{cells, json, prints};
use crate::process::Process;

#[test]
fn a_cluster_tells_what_it_is_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 3, &[]);
    let info = json(&broker, &["cluster", "info"]);
    assert_eq!(
        (&info["controller"], &info["topic_count"], &info["partition_count"]),
        (&1.into(), &1.into(), &3.into())
    );
    let address = format!(
        "{}:{}",
        info["brokers"][0]["host"].as_str().unwrap(),
        info["brokers"][0]["port"]
    );
    assert_eq!(address, broker.address);
    assert!(info["features"]["transaction.version"].as_i64().unwrap() >= 2, "{info}");
    let text = prints(&broker, &["cluster", "info"]);
    let lines = cells(&text);
    assert_eq!(lines[0][1], info["cluster_id"].as_str().unwrap());
    assert_eq!(lines[2], ["ID", "HOST", "PORT", "RACK", "CONTROLLER", "STATE"]);
    assert_eq!((lines[3][0], &lines[3][3..]), ("1", &["-", "yes", "serving"][..]));
}

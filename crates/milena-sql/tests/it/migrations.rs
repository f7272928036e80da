//! Creation of the tables.

use crate::databases::Home;
use milena_sql::{ConnectError, Database, MIGRATIONS};

#[tokio::test]
async fn tables_are_created_once() {
    for home in Home::both() {
        let database = home.connect().await;
        assert_eq!(database.migrate().await.unwrap().len(), MIGRATIONS.len());
        assert!(database.migrate().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn other_schemes_are_refused_by_name() {
    let error = Database::connect("mysql://root@localhost/app").await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Scheme { scheme } if scheme == "mysql"),
        "{error}"
    );
}

//! A process that is one of the services, until it is killed.

use std::{io::Read as _, process::ExitCode, time::Duration};

use milena_app::{
    App,
    handler::Fault,
    saga::{Saga, Step},
};
use milena_sql::{
    Connection, Database,
    once::{Tx, TxDatabase},
    saga::{AppSagas as _, Outcome, Participant, SagaId, Sagas},
    sqlx::{self, Postgres, Sqlite},
};

/// The first argument of a service process.
pub const ROLE: &str = "service";
pub const SERVICES: [&str; 4] = ["orders", "inventory", "payment", "shipping"];
/// Time in which a step reports. Faults last longer now and then, so some sagas are cancelled by a timer.
const STEP: Duration = Duration::from_secs(4);

fn order_saga() -> Saga {
    Saga::named("order")
        .owner("orders", "orders.events")
        .participant("inventory", "inventory.events")
        .participant("payment", "payment.events")
        .participant("shipping", "shipping.events")
        .starts("OrderCreated")
        .completed("OrderCompleted")
        .cancelled("OrderCancelled")
        .step(
            Step::compensatable("reserve")
                .by("inventory")
                .on("OrderCreated")
                .done("InventoryReserved")
                .failed("InventoryRejected")
                .compensated("InventoryReleased")
                .timeout(STEP),
        )
        .step(
            Step::compensatable("charge")
                .by("payment")
                .on("InventoryReserved")
                .done("PaymentProcessed")
                .failed("PaymentFailed")
                .compensated("PaymentRefunded")
                .timeout(STEP)
                .retries(1),
        )
        .step(
            Step::pivot("ship")
                .by("shipping")
                .on("PaymentProcessed")
                .done("ShipmentCreated")
                .failed("ShipmentFailed")
                .timeout(STEP),
        )
        .build()
        .unwrap()
}

async fn note<D: TxDatabase>(tx: &mut Tx<D>, sql: &'static str, id: &str) -> Result<(), Fault> {
    match tx.connection() {
        Connection::Postgres(connection) => {
            sqlx::query(sql).bind(id).execute(connection).await?;
        }
        Connection::Sqlite(connection) => {
            sqlx::query(sql).bind(id).execute(connection).await?;
        }
    }
    Ok(())
}

/// The last digits of an order decide its fate.
fn number(id: &str) -> usize {
    id.rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

async fn reserve<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<Outcome, Fault> {
    note(&mut tx, "UPDATE stock SET free = free - 1 WHERE $1 <> ''", &id).await?;
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'do')", &id).await?;
    if number(&id) % 11 == 3 {
        return Ok(Outcome::failed("out of stock"));
    }
    Ok(Outcome::done())
}

async fn release<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    note(&mut tx, "UPDATE stock SET free = free + 1 WHERE $1 <> ''", &id).await?;
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'undo')", &id).await
}

async fn charge<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<Outcome, Fault> {
    if number(&id) % 7 == 5 {
        return Ok(Outcome::failed("card declined"));
    }
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'do')", &id).await?;
    Ok(Outcome::done())
}

async fn refund<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'undo')", &id).await
}

async fn ship<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<Outcome, Fault> {
    if number(&id) % 13 == 4 {
        return Ok(Outcome::failed("no such address"));
    }
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'do')", &id).await?;
    Ok(Outcome::done())
}

async fn completed<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'completed')", &id).await
}

async fn cancelled<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    note(&mut tx, "INSERT INTO effects (id, kind) VALUES ($1, 'cancelled')", &id).await
}

fn participant<D: TxDatabase>(service: &str) -> Participant {
    let participant = Participant::new(&order_saga(), service);
    match service {
        "orders" => participant.completed(completed::<D>).cancelled(cancelled::<D>),
        "inventory" => participant
            .step("reserve", reserve::<D>)
            .compensation("reserve", release::<D>),
        "payment" => participant
            .step("charge", charge::<D>)
            .compensation("charge", refund::<D>),
        _ => participant.step("ship", ship::<D>),
    }
}

/// Arguments: name of the service, URL of its database, address of the broker.
pub fn main(arguments: &[String]) -> ExitCode {
    let [service, url, address] = arguments else {
        return ExitCode::FAILURE;
    };
    // Its input ends with the process of the test.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        std::process::exit(0);
    });
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(run(service, url, address));
    eprintln!("{service} ended: {ended:?}");
    ExitCode::FAILURE
}

async fn run(service: &str, url: &str, address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::connect(url).await?;
    let participant = match &database {
        Database::Postgres(_) => participant::<Postgres>(service),
        Database::Sqlite(_) => participant::<Sqlite>(service),
    };
    // A failing database is no reason for a dead letter: the record is retried for as long as the test takes.
    let sagas = Sagas::new(database).participant(participant).policy(|policy| {
        let retry = milena_app::policy::Retry::default().attempts(1_000_000);
        policy.retry(retry)
    });
    let app = App::new(address)
        .group(service)
        .consumer("session.timeout.ms", 6000)
        .consumer("heartbeat.interval.ms", 1000)
        .sagas(sagas)?;
    app.run_until(std::future::pending()).await?;
    Ok(())
}

//! The cost of quotas for each request of a client that has one.

use milena_machines::quota::{ClientName, ClientQuotas, QuotaEntity, QuotaKey, QuotaTable, RawEntity, Window};

fn main() {
    divan::main();
}

/// Quotas of this many users, with as many client ids in use.
fn quotas(users: usize) -> (ClientQuotas, Vec<(String, String)>) {
    let mut table = QuotaTable::default();
    let mut clients = vec![];
    for number in 0..users {
        let raw: RawEntity = [("user".into(), Some(format!("user-{number}").into()))].into();
        let entity = QuotaEntity::new(&raw, &|_| true).expect("a user is an entity");
        table.set(entity, [(QuotaKey::ProducerByteRate, 1e12)].into());
        clients.push((format!("user-{number}"), format!("client-{number}")));
    }
    let mut quotas = ClientQuotas::new(QuotaKey::ProducerByteRate, Window::default(), 100_000);
    quotas.set_limits(table.limits(QuotaKey::ProducerByteRate));
    (quotas, clients)
}

#[divan::bench(args = [1, 1_000, 10_000])]
fn record(bencher: divan::Bencher<'_, '_>, users: usize) {
    let (mut quotas, clients) = quotas(users);
    let mut request = 0_usize;
    bencher.bench_local(|| {
        request += 1;
        let (user, client_id) = &clients[request * 7 % clients.len()];
        let client = ClientName { user, client_id };
        quotas.record(client, 1000.0, request as i64 / 1000)
    });
}

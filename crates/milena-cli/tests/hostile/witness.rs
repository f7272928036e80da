//! The client that behaves: it writes numbered records, reads them back, and checks each.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{Consumer, TopicPartition},
    producer::{Deliveries, Producer, ProducerRecord},
};

pub const TOPIC: &str = "witness-7f3a";
/// Records of one round, which are written and then read.
const ROUND: u64 = 64;
const VALUE_BYTES: usize = 1000;
/// The longest time of a round.
const ROUND_TIME_MAX: Duration = Duration::from_secs(60);

pub struct Witness {
    state: Arc<State>,
    thread: JoinHandle<Result<(), String>>,
}

#[derive(Default)]
struct State {
    /// Records that were written and read.
    records: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Witness {
    pub fn start(address: &str) -> Self {
        let state = Arc::new(State::default());
        let (address, shared) = (address.to_owned(), Arc::clone(&state));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let outcome = runtime.block_on(run(&address, &shared));
            if let Err(problem) = &outcome {
                *shared.failure.lock().unwrap() = Some(problem.clone());
            }
            outcome
        });
        Self { state, thread }
    }

    pub fn records(&self) -> u64 {
        self.state.records.load(Relaxed)
    }

    /// Records per second from now on, over this time.
    pub fn rate(&self, time: Duration) -> f64 {
        let (began, before) = (Instant::now(), self.records());
        std::thread::sleep(time);
        (self.records() - before) as f64 / began.elapsed().as_secs_f64()
    }

    pub fn check(&self) -> Result<(), String> {
        match &*self.state.failure.lock().unwrap() {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        }
    }

    /// Returns the number of records.
    pub fn end(self) -> Result<u64, String> {
        self.state.stop.store(true, Relaxed);
        self.thread.join().unwrap()?;
        Ok(self.state.records.load(Relaxed))
    }
}

async fn run(address: &str, state: &State) -> Result<(), String> {
    let producer = Producer::new(ProducerConfig::builder(address)).map_err(|error| error.to_string())?;
    let mut consumer = Consumer::new(ConsumerConfig::builder(address)).map_err(|error| error.to_string())?;
    consumer.assign([TopicPartition::new(TOPIC, 0)]).unwrap();
    consumer.seek(&TopicPartition::new(TOPIC, 0), 0).unwrap();
    let mut next = 0;
    while !state.stop.load(Relaxed) {
        let round = round(&producer, &mut consumer, next);
        let round = tokio::time::timeout(ROUND_TIME_MAX, round).await;
        round.map_err(|_| format!("the other client waits for record {next} for {ROUND_TIME_MAX:?}"))??;
        next += ROUND;
        state.records.store(next, Relaxed);
    }
    Ok(())
}

/// Writes records and reads them, each at the offset that is its number.
async fn round(producer: &Producer, consumer: &mut Consumer, first: u64) -> Result<(), String> {
    let mut deliveries = Deliveries::default();
    for number in first..first + ROUND {
        let value = value(number);
        let record = ProducerRecord::new(TOPIC).partition(0).value(&value);
        let delivery = producer.enqueue(record).await;
        deliveries.push(delivery.map_err(|error| format!("the other client cannot write: {error}"))?);
    }
    let written = deliveries.all().await;
    written.map_err(|error| format!("the other client cannot write: {error}"))?;
    let mut next = first;
    while next < first + ROUND {
        let records = consumer.poll(Duration::from_secs(1)).await;
        let records = records.map_err(|error| format!("the other client cannot read: {error}"))?;
        for record in &records {
            let is_expected = record.offset() == next as i64 && record.value() == Some(value(next).as_bytes());
            if !is_expected {
                return Err(format!("record {} was read where {next} was written", record.offset()));
            }
            next += 1;
        }
    }
    Ok(())
}

fn value(number: u64) -> String {
    format!("{number:0>VALUE_BYTES$}")
}

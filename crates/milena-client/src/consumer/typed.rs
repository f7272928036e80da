//! Records with typed keys and values.

use super::{
    deserialize::{AnyDeserializer, AnyValue, BoxError, DeserializeError, Deserializer, RecordField, Source},
    rebalance_consumer::RebalanceConsumer,
    records::{ConsumerRecords, RecordRef},
};

/// A record with deserialized key and value.
#[derive(Debug, Clone)]
pub struct TypedRecord<'a, K, V> {
    pub key: K,
    pub value: V,
    /// The record itself.
    pub record: RecordRef<'a>,
}

impl<'a> RecordRef<'a> {
    /// Deserializes the key. The error contains the bytes; the consumer continues regardless.
    pub fn key_as<T>(&self, deserializer: &impl Deserializer<T>) -> Result<T, Box<DeserializeError>> {
        self.read(RecordField::Key, self.key(), deserializer)
    }

    /// Deserializes the value. The error contains the bytes; the consumer continues regardless.
    pub fn value_as<T>(&self, deserializer: &impl Deserializer<T>) -> Result<T, Box<DeserializeError>> {
        self.read(RecordField::Value, self.value(), deserializer)
    }

    fn read<T>(
        &self,
        field: RecordField,
        data: Option<&'a [u8]>,
        deserializer: &impl Deserializer<T>,
    ) -> Result<T, Box<DeserializeError>> {
        let source = Source::new(self.topic(), field, data).with_headers(self.headers());
        let failed = |reason: BoxError| self.deserialize_error(field, reason);
        deserializer.deserialize(&source).map_err(failed)
    }
}

impl RebalanceConsumer {
    /// Deserializes key and value with the configured `key.deserializer` and `value.deserializer`. For types chosen by
    /// configuration; see also [`RecordRef::value_as`] and [`ConsumerRecords::typed`].
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use milena_client::{config::ConsumerConfig, consumer::Consumer};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = ConsumerConfig::builder("localhost:9092")
    ///     .group_id("printers")
    ///     .set("key.deserializer", "string")
    ///     .set("value.deserializer", "org.apache.kafka.common.serialization.LongDeserializer");
    /// let mut consumer = Consumer::new(config)?;
    /// consumer.subscribe(["counts"])?;
    /// for record in &consumer.poll(Duration::from_secs(1)).await? {
    ///     let decoded = consumer.decode(record)?;
    ///     println!("{} = {}", decoded.key, decoded.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn decode<'a>(
        &self,
        record: RecordRef<'a>,
    ) -> Result<TypedRecord<'a, AnyValue, AnyValue>, Box<DeserializeError>> {
        let config = self.config();
        Ok(TypedRecord {
            key: record.key_as(&AnyDeserializer::from(config.key_deserializer))?,
            value: record.value_as(&AnyDeserializer::from(config.value_deserializer))?,
            record,
        })
    }
}

impl ConsumerRecords {
    /// Deserializes all records lazily. A record that cannot be read is an error with its bytes, in order; the
    /// iteration continues, and the position is past it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use milena_client::consumer::{Consumer, deserialize::{Json, Plain}};
    /// # async fn example(consumer: &mut Consumer) -> Result<(), Box<dyn std::error::Error>> {
    /// #[derive(serde::Deserialize)]
    /// struct Order {
    ///     id: u64,
    /// }
    ///
    /// let records = consumer.poll(Duration::from_secs(1)).await?;
    /// for record in records.typed::<String, Order>(&Plain, &Json) {
    ///     match record {
    ///         Ok(record) => println!("{} ordered {}", record.key, record.value.id),
    ///         Err(error) => eprintln!("skipped: {error}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<'a, K, V>(
        &'a self,
        key: &'a impl Deserializer<K>,
        value: &'a impl Deserializer<V>,
    ) -> impl Iterator<Item = Result<TypedRecord<'a, K, V>, Box<DeserializeError>>> {
        self.iter().map(move |record| {
            Ok(TypedRecord {
                key: record.key_as(key)?,
                value: record.value_as(value)?,
                record,
            })
        })
    }
}

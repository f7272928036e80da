//! JSON messages: records and outcomes.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    handler::{BoxError, Cx, Done, Fault, OutRecord},
    json::{Text, WrittenText},
    request_reply::OutReply,
};

/// A record to be handled.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub(super) id: u64,
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: i64,
    key: Option<Text<'a>>,
    value: Option<Text<'a>>,
    headers: Vec<(Cow<'a, str>, Option<Text<'a>>)>,
    attempt: u32,
    group: &'a str,
    event_id: String,
}

impl<'a> Request<'a> {
    pub(super) fn new(id: u64, cx: &'a Cx) -> Self {
        let record = cx.record();
        let headers = record.headers().map(|header| {
            let name = String::from_utf8_lossy(header.key);
            (name, header.value.map(Text))
        });
        Self {
            id,
            topic: record.topic(),
            partition: record.partition(),
            offset: record.offset(),
            timestamp: record.timestamp(),
            key: record.key().map(Text),
            value: record.value().map(Text),
            headers: headers.collect(),
            attempt: cx.attempt(),
            group: cx.group(),
            event_id: cx.event_id(),
        }
    }
}

/// Outcome of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeMessage {
    #[serde(default)]
    pub(super) id: u64,
    skip: Option<String>,
    #[serde(default)]
    duplicate: bool,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    emit: Vec<Emitted>,
    reply: Option<WrittenReply>,
    error: Option<String>,
    intent: Option<WrittenIntent>,
    dependency: Option<String>,
    /// Stack trace for the dead letter.
    stack: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenIntent {
    Retry,
    Poison,
    Dependency,
    Fatal,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Emitted {
    topic: String,
    partition: Option<i32>,
    key: Option<WrittenText>,
    value: Option<WrittenText>,
    #[serde(default)]
    headers: Vec<(String, Option<WrittenText>)>,
    timestamp: Option<i64>,
}

/// A reply to the record, which is a request: a value, or an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReply {
    key: Option<WrittenText>,
    value: Option<WrittenText>,
    #[serde(default)]
    headers: Vec<(String, Option<WrittenText>)>,
    error: Option<String>,
    class: Option<String>,
}

impl WrittenReply {
    fn reply(self, emit: Vec<OutRecord>) -> Result<OutReply, BoxError> {
        let mut reply = match &self.error {
            Some(error) => OutReply::error(self.class.as_deref().unwrap_or("error"), error),
            None => OutReply::default(),
        };
        (reply.key, reply.value, reply.emit) = (bytes(self.key)?, bytes(self.value)?, emit);
        for (name, value) in self.headers {
            reply.headers.push((name.into(), bytes(value)?));
        }
        Ok(reply)
    }
}

fn bytes(written: Option<WrittenText>) -> Result<Option<Bytes>, BoxError> {
    Ok(written.map(WrittenText::bytes).transpose()?.map(Bytes::from))
}

impl Emitted {
    fn record(self) -> Result<OutRecord, BoxError> {
        let mut record = OutRecord {
            topic: self.topic,
            partition: self.partition,
            key: bytes(self.key)?,
            value: bytes(self.value)?,
            headers: vec![],
            timestamp: self.timestamp,
        };
        for (name, value) in self.headers {
            record.headers.push((name.into(), bytes(value)?));
        }
        Ok(record)
    }
}

impl OutcomeMessage {
    pub(super) fn outcome(self) -> Result<Done, Fault> {
        if let Some(error) = self.error {
            let fault = match (self.intent, self.dependency) {
                (Some(WrittenIntent::Poison), _) => Fault::poison(error),
                (Some(WrittenIntent::Fatal), _) => Fault::fatal(error),
                (Some(WrittenIntent::Dependency), Some(name)) => Fault::dependency(name)(error),
                _ => Fault::retry(error),
            };
            return Err(fault.with_details(self.stack.unwrap_or_default()));
        }
        if let Some(why) = self.skip {
            return Ok(Done::Skip(why.into()));
        }
        if self.duplicate {
            return Ok(Done::Duplicate);
        }
        if let Some(ms) = self.retry_after_ms {
            return Ok(Done::RetryAfter(Duration::from_millis(ms)));
        }
        let records: Result<Vec<OutRecord>, BoxError> = self.emit.into_iter().map(Emitted::record).collect();
        let records = records.map_err(Fault::retry)?;
        if let Some(reply) = self.reply {
            return Ok(reply.reply(records).map_err(Fault::retry)?.into());
        }
        Ok(if records.is_empty() {
            Done::Ok
        } else {
            Done::Emit(records)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Intent;

    fn outcome(text: &str) -> Result<Done, Fault> {
        serde_json::from_str::<OutcomeMessage>(text).unwrap().outcome()
    }

    #[test]
    fn outcome_messages_mean_what_handlers_return() {
        assert_eq!(outcome(r#"{"id":1}"#).unwrap(), Done::Ok);
        assert_eq!(outcome(r#"{"skip":"no"}"#).unwrap(), Done::Skip("no".into()));
        assert_eq!(outcome(r#"{"duplicate":true}"#).unwrap(), Done::Duplicate);
        assert_eq!(
            outcome(r#"{"retry_after_ms":5}"#).unwrap(),
            Done::RetryAfter(Duration::from_millis(5))
        );
        let emitted = outcome(r#"{"emit":[{"topic":"t","key":"k","value":{"base64":"AP8="},"headers":[["h","v"]]}]}"#);
        let expected = OutRecord::new("t").key("k").value(&b"\x00\xff"[..]).header("h", "v");
        assert_eq!(emitted.unwrap(), Done::Emit(vec![expected]));
        let replied = outcome(r#"{"reply":{"value":"42","headers":[["unit","EUR"]]},"emit":[{"topic":"t"}]}"#);
        let expected = OutReply::new("42").header("unit", "EUR").and_emit(OutRecord::new("t"));
        assert_eq!(replied.unwrap(), expected.into());
        let refused = outcome(r#"{"reply":{"error":"no such share","class":"unknown"}}"#);
        assert_eq!(refused.unwrap(), OutReply::error("unknown", "no such share").into());
        let intent = |text: &str| outcome(text).unwrap_err().intent().clone();
        assert_eq!(intent(r#"{"error":"e"}"#), Intent::Retry);
        assert_eq!(intent(r#"{"error":"e","intent":"poison"}"#), Intent::Poison);
        assert_eq!(intent(r#"{"error":"e","intent":"fatal"}"#), Intent::Fatal);
        let dependency = r#"{"error":"e","intent":"dependency","dependency":"psp"}"#;
        assert_eq!(intent(dependency), Intent::Dependency("psp".into()));
        assert!(serde_json::from_str::<OutcomeMessage>(r#"{"eror":"e"}"#).is_err());
    }
}

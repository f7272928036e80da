//! Where the reply to a request goes, from the headers of the request.

use bytes::Bytes;
use milena_client::consumer::Headers;

use super::headers::{
    CORRELATION_ID, REPLY_DEADLINE, REPLY_PARTITION, REPLY_TOPIC, SPRING_CORRELATION_ID, SPRING_REPLY_PARTITION,
    SPRING_REPLY_TOPIC,
};

/// Longest correlation id that is repeated.
const CORRELATION_BYTES_MAX: usize = 256;
/// Longest topic name that Kafka accepts.
const TOPIC_BYTES_MAX: usize = 249;

/// Where a requester waits for its reply. Everything in it was written by the requester and is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplyAddress {
    pub topic: String,
    /// `None` lets the partitioner choose.
    pub partition: Option<i32>,
    /// Name of the header that the id came with; the reply has the same.
    pub correlation_header: &'static str,
    pub correlation_id: Bytes,
    /// Time at which the requester gives up, in milliseconds since 1970.
    pub deadline_ms: Option<i64>,
}

/// A request with reply headers that make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("header {header} of the request is invalid: {problem}")]
pub struct AddressError {
    pub header: &'static str,
    pub problem: &'static str,
}

impl ReplyAddress {
    /// Reads the headers of a request: our names, or else Spring's. Of several headers of a name the last one counts.
    /// Returns `None` if the record asks for no reply.
    pub fn read(headers: Headers<'_>) -> Result<Option<Self>, AddressError> {
        let mut found = Found::default();
        for header in headers {
            if let Some(value) = header.value {
                found.take(header.key, value);
            }
        }
        found.address()
    }
}

#[derive(Default)]
struct Found<'a> {
    ours: Address<'a>,
    spring: Address<'a>,
    deadline: Option<&'a [u8]>,
}

#[derive(Default, Clone, Copy)]
struct Address<'a> {
    correlation: Option<&'a [u8]>,
    topic: Option<&'a [u8]>,
    partition: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    fn take(&mut self, name: &[u8], value: &'a [u8]) {
        let names = [
            (CORRELATION_ID, &mut self.ours.correlation),
            (REPLY_TOPIC, &mut self.ours.topic),
            (REPLY_PARTITION, &mut self.ours.partition),
            (REPLY_DEADLINE, &mut self.deadline),
            (SPRING_CORRELATION_ID, &mut self.spring.correlation),
            (SPRING_REPLY_TOPIC, &mut self.spring.topic),
            (SPRING_REPLY_PARTITION, &mut self.spring.partition),
        ];
        for (known, field) in names {
            if name == known.as_bytes() {
                *field = Some(value);
            }
        }
    }

    fn address(&self) -> Result<Option<ReplyAddress>, AddressError> {
        let is_ours = self.ours.correlation.is_some();
        let (from, correlation_header, topic_header) = if is_ours {
            (self.ours, CORRELATION_ID, REPLY_TOPIC)
        } else {
            (self.spring, SPRING_CORRELATION_ID, SPRING_REPLY_TOPIC)
        };
        // A correlation id alone is no request: replies have one, and so have events of other systems.
        let (Some(correlation), Some(topic)) = (from.correlation, from.topic) else {
            return Ok(None);
        };
        let wrong = |header, problem| AddressError { header, problem };
        if correlation.len() > CORRELATION_BYTES_MAX {
            return Err(wrong(correlation_header, "it is longer than 256 bytes"));
        }
        let topic = topic_name(topic).ok_or_else(|| wrong(topic_header, "it is not the name of a topic"))?;
        let partition = match (from.partition, is_ours) {
            (None, _) => None,
            (Some(text), true) => {
                Some(number(text).ok_or_else(|| wrong(REPLY_PARTITION, "it is not the number of a partition"))?)
            }
            (Some(bytes), false) => {
                let number = bytes.try_into().ok().map(i32::from_be_bytes);
                let number = number.filter(|number| *number >= 0);
                Some(number.ok_or_else(|| wrong(SPRING_REPLY_PARTITION, "it is not the number of a partition"))?)
            }
        };
        let deadline = self.deadline.map(|text| {
            number::<i64>(text).ok_or_else(|| wrong(REPLY_DEADLINE, "it is not a time in milliseconds since 1970"))
        });
        Ok(Some(ReplyAddress {
            topic,
            partition,
            correlation_header,
            correlation_id: Bytes::copy_from_slice(correlation),
            deadline_ms: deadline.transpose()?,
        }))
    }
}

/// Reads the deadline of a request, and nothing else.
pub(crate) fn deadline_ms(headers: Headers<'_>) -> Option<i64> {
    let mut deadline = None;
    for header in headers {
        if header.key == REPLY_DEADLINE.as_bytes() {
            deadline = header.value;
        }
    }
    number(deadline?)
}

/// A number that is not negative.
fn number<N: std::str::FromStr + PartialOrd + Default>(text: &[u8]) -> Option<N> {
    let number = std::str::from_utf8(text).ok()?.parse::<N>().ok()?;
    (number >= N::default()).then_some(number)
}

fn topic_name(bytes: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(bytes).ok()?;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = !name.is_empty() && name.len() <= TOPIC_BYTES_MAX && name != "." && name != "..";
    (fits && name.bytes().all(is_legal)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record_with_headers;

    fn read(headers: &[(&str, &[u8])]) -> Result<Option<ReplyAddress>, AddressError> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), Some(Bytes::copy_from_slice(value))))
            .collect();
        let records = record_with_headers(&headers);
        ReplyAddress::read(records.iter().next().unwrap().headers())
    }

    #[test]
    fn our_names_are_read() {
        let address = read(&[
            ("correlation_id", b"abc"),
            ("reply_topic", b"replies.svc-a"),
            ("reply_partition", b"7"),
            ("reply_deadline", b"1782892800000"),
            ("kafka_correlationId", b"other"),
            ("kafka_replyTopic", b"elsewhere"),
        ]);
        let address = address.unwrap().unwrap();
        assert_eq!((address.topic.as_str(), address.partition), ("replies.svc-a", Some(7)));
        assert_eq!(
            (address.correlation_header, &address.correlation_id[..]),
            ("correlation_id", &b"abc"[..])
        );
        assert_eq!(address.deadline_ms, Some(1_782_892_800_000));
    }

    #[test]
    fn springs_names_are_read() {
        let address = read(&[
            ("kafka_correlationId", &[0xff; 16]),
            ("kafka_replyTopic", b"kReplies"),
            ("kafka_replyPartition", &[0, 0, 1, 0]),
        ]);
        let address = address.unwrap().unwrap();
        assert_eq!((address.topic.as_str(), address.partition), ("kReplies", Some(256)));
        assert_eq!(address.correlation_header, "kafka_correlationId");
        assert_eq!(
            (&address.correlation_id[..], address.deadline_ms),
            (&[0xff; 16][..], None)
        );
    }

    #[test]
    fn records_that_ask_for_nothing_have_no_address() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("correlation_id", b"abc")]), Ok(None));
        assert_eq!(read(&[("reply_topic", b"replies")]), Ok(None));
        assert_eq!(
            read(&[("kafka_replyTopic", b"replies"), ("correlation_id", b"abc")]),
            Ok(None)
        );
    }

    #[test]
    fn headers_that_make_no_sense_are_errors() {
        let ours = |name, value| read(&[("correlation_id", b"a"), ("reply_topic", b"replies"), (name, value)]);
        let header = |result: Result<_, AddressError>| result.unwrap_err().header;
        for topic in [&b""[..], b".", b"..", b"a b", b"\xff", b"a/b", &[b'a'; 250]] {
            assert_eq!(header(ours("reply_topic", topic)), "reply_topic");
        }
        for partition in [&b"-1"[..], b"x", b"", b"99999999999"] {
            assert_eq!(header(ours("reply_partition", partition)), "reply_partition");
        }
        assert_eq!(header(ours("reply_deadline", b"soon")), "reply_deadline");
        assert_eq!(header(ours("correlation_id", &[0; 257])), "correlation_id");
        let spring = |partition| {
            read(&[
                ("kafka_correlationId", b"a"),
                ("kafka_replyTopic", b"replies"),
                ("kafka_replyPartition", partition),
            ])
        };
        for partition in [&[0xff, 0xff, 0xff, 0xff][..], &[0], b"00000"] {
            assert_eq!(header(spring(partition)), "kafka_replyPartition");
        }
    }
}

//! Names of the headers of requests and replies.

/// Id that a reply repeats: 16 bytes in requests of this library, any bytes in others.
pub const CORRELATION_ID: &str = "correlation_id";
/// Topic of the reply, as text.
pub const REPLY_TOPIC: &str = "reply_topic";
/// Partition of the reply, as decimal text.
pub const REPLY_PARTITION: &str = "reply_partition";
/// Time at which the requester gives up: milliseconds since 1970, as decimal text.
pub const REPLY_DEADLINE: &str = "reply_deadline";
/// Error message, in a reply to a request that failed.
pub const REPLY_ERROR: &str = "reply_error";
/// Class of the failure, beside [`REPLY_ERROR`].
pub const REPLY_ERROR_CLASS: &str = "reply_error_class";

/// Spring's names. Its partition is a big-endian number of four bytes.
pub const SPRING_CORRELATION_ID: &str = "kafka_correlationId";
pub const SPRING_REPLY_TOPIC: &str = "kafka_replyTopic";
pub const SPRING_REPLY_PARTITION: &str = "kafka_replyPartition";

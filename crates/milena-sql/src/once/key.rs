//! Identity of an event in the table of processed events.

use milena_app::handler::Cx;

/// Longest id of an event, in bytes. An index of PostgreSQL takes rows up to 2,704 bytes.
const ID_BYTES_MAX: usize = 1024;

/// An event, and the consumer that handles it. Handlers of one group are consumers of their own: an event may be in the
/// topics of several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    pub group: String,
    pub handler: String,
    pub event_id: String,
}

/// The id of an event cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventIdError {
    #[error(
        "the id of the event has {bytes} bytes; at most {ID_BYTES_MAX} are allowed in the header event_id, ce_id or id"
    )]
    TooLong { bytes: usize },
    #[error("the id of the event contains a NUL character; remove it from the header event_id, ce_id or id")]
    Nul,
}

impl EventKey {
    pub(crate) fn of(cx: &Cx) -> Result<Self, EventIdError> {
        let id = cx.event_id();
        // Ids of CloudEvents are unique only within their source.
        let event_id = match source_of(cx) {
            Some(source) => format!("{source} {id}"),
            None => id,
        };
        if event_id.len() > ID_BYTES_MAX {
            let bytes = event_id.len();
            return Err(EventIdError::TooLong { bytes });
        }
        if event_id.contains('\0') {
            return Err(EventIdError::Nul);
        }
        Ok(Self {
            group: cx.group().to_owned(),
            handler: cx.handler().to_owned(),
            event_id,
        })
    }
}

/// The CloudEvents source of a record whose id is that of CloudEvents.
fn source_of(cx: &Cx) -> Option<String> {
    if header(cx, "event_id").is_some() {
        return None;
    }
    header(cx, "ce_id")?;
    header(cx, "ce_source").map(|source| String::from_utf8_lossy(source).into_owned())
}

/// Value of the first header of a name, unless it is empty.
fn header<'a>(cx: &'a Cx, name: &str) -> Option<&'a [u8]> {
    let mut headers = cx.record().headers();
    let found = headers.find(|header| header.key == name.as_bytes());
    found.and_then(|header| header.value).filter(|value| !value.is_empty())
}

/// Value of a header that is text and can be stored.
pub(super) fn text_header(cx: &Cx, name: &str) -> Option<String> {
    let text = str::from_utf8(header(cx, name)?).ok()?;
    let is_storable = text.len() <= ID_BYTES_MAX && !text.contains('\0');
    is_storable.then(|| text.to_owned())
}

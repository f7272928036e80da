//! The scan of the metadata log: whole entries, and damage between them.

use super::{Change, HEADER_SIZE, next_whole};

/// The content of a metadata log.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) changes: Vec<Change>,
    /// The end of the last whole entry.
    pub(crate) end: usize,
    /// Bytes that are no entries, with whole entries or nothing behind them; in order, each with its end.
    pub(crate) damage: Vec<(usize, usize)>,
    /// The start of the entry that was being written when the process ended.
    pub(crate) torn: Option<usize>,
    /// The number of entries behind the first damage.
    pub(crate) entries_behind: usize,
}

/// Reads all entries; fails with the text of an entry that is whole but not known.
pub(crate) fn scan(content: &[u8]) -> Result<Scan, String> {
    let mut scan = Scan::default();
    let mut position = 0;
    while position < content.len() {
        let mut rest = content.get(position..).unwrap_or_default();
        if let Some(json) = next_whole(&mut rest) {
            let change = serde_json::from_slice(json).map_err(|error| error.to_string())?;
            scan.changes.push(change);
            scan.entries_behind += usize::from(!scan.damage.is_empty());
            position = content.len() - rest.len();
            scan.end = position;
            continue;
        }
        match next_entry(content, position + 1) {
            Some(next) => {
                scan.damage.push((position, next));
                position = next;
            }
            None if is_torn(content.get(position..).unwrap_or_default()) => {
                scan.torn = Some(position);
                break;
            }
            None => {
                scan.damage.push((position, content.len()));
                break;
            }
        }
    }
    Ok(scan)
}

/// The start of the next whole entry, at `from` or later.
fn next_entry(content: &[u8], from: usize) -> Option<usize> {
    (from..content.len().saturating_sub(HEADER_SIZE)).find(|place| {
        let mut rest = content.get(*place..).unwrap_or_default();
        // Each is a JSON object; that check is cheaper than the checksum.
        rest.get(HEADER_SIZE) == Some(&b'{') && next_whole(&mut rest).is_some()
    })
}

/// Whether bytes at the end of the file are the start of an entry of which the rest was not written.
fn is_torn(bytes: &[u8]) -> bool {
    let Some((header, json)) = bytes.split_at_checked(HEADER_SIZE) else {
        return true;
    };
    let number = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied());
        bytes.map_or(0, u32::from_be_bytes)
    };
    let (length, crc) = (number(0) as usize, number(4));
    // A file that grew before its content was written ends in zeros; no entry does.
    let ends_in_zeros = json.last().is_none_or(|last| *last == 0);
    // The whole entry is there, and only its length is wrong.
    let is_whole = crc32c::crc32c(json) == crc;
    (length > json.len() && !is_whole) || ends_in_zeros
}

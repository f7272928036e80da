//! PEM, as lenient as Kafka: text around the blocks, line breaks that are spaces, no last line break.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use zeroize::Zeroizing;

use super::StoreError;
use crate::x509::der::Reader;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// One block of a PEM text.
pub(super) struct Block {
    pub(super) label: String,
    /// Whether it has the header of OpenSSL's old encryption.
    pub(super) has_old_encryption: bool,
    pub(super) content: Zeroizing<Vec<u8>>,
}

pub(super) fn is_pem(bytes: &[u8]) -> bool {
    let begin = BEGIN.as_bytes();
    bytes.windows(begin.len()).any(|window| window == begin)
}

/// All blocks of a text, in their order.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Block>, StoreError> {
    if bytes.is_empty() {
        return Err(StoreError::Empty);
    }
    // The text around the blocks may have any encoding.
    let text = Zeroizing::new(String::from_utf8_lossy(bytes).into_owned());
    let mut blocks = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (label, after) = after
            .split_once(DASHES)
            .ok_or_else(|| StoreError::Damaged("`-----BEGIN` without its closing dashes".to_owned()))?;
        let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
        let (body, after) = after
            .split_once(END)
            .ok_or_else(|| StoreError::Damaged(format!("`-----BEGIN {label}-----` without its end")))?;
        // The label of the end is not compared; but its dashes must not look like the next block.
        rest = after.split_once(DASHES).map_or("", |(_, after)| after);
        blocks.push(decode(label, body)?);
    }
    if blocks.is_empty() {
        return Err(StoreError::Unrecognised);
    }
    Ok(blocks)
}

fn decode(label: String, body: &str) -> Result<Block, StoreError> {
    let has_old_encryption = body.contains("Proc-Type:") && body.contains("ENCRYPTED");
    // A backslash and an `n` stand for a line break in texts that have passed through JSON or a shell.
    let body = Zeroizing::new(body.replace("\\r", " ").replace("\\n", " "));
    let mut digits = Zeroizing::new(String::with_capacity(body.len()));
    for line in body.lines().filter(|line| !line.contains(':')) {
        digits.extend(line.split_whitespace());
    }
    let content = if has_old_encryption {
        Vec::new()
    } else {
        let problem = |_| StoreError::Damaged(format!("`-----BEGIN {label}-----` is not followed by base64"));
        BASE64.decode(digits.as_bytes()).map_err(problem)?
    };
    Ok(Block {
        label,
        has_old_encryption,
        content: Zeroizing::new(content),
    })
}

/// The certificates among the blocks.
pub(super) fn certificates(blocks: &[Block]) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let mut found = Vec::new();
    for block in blocks {
        let content = match block.label.as_str() {
            "CERTIFICATE" | "X509 CERTIFICATE" => block.content.to_vec(),
            // OpenSSL appends its own trust settings.
            "TRUSTED CERTIFICATE" => {
                let whole = Reader::new(&block.content).any();
                whole
                    .map_err(|error| StoreError::Certificate(error.to_string()))?
                    .whole
                    .to_vec()
            }
            _ => continue,
        };
        found.push(CertificateDer::from(content));
    }
    if found.is_empty() {
        return Err(StoreError::NoCertificate);
    }
    Ok(found)
}

pub(super) fn revocation_lists(blocks: &[Block]) -> Vec<CertificateRevocationListDer<'static>> {
    let lists = blocks.iter().filter(|block| block.label == "X509 CRL");
    lists
        .map(|block| CertificateRevocationListDer::from(block.content.to_vec()))
        .collect()
}

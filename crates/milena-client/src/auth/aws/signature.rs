//! AWS Signature Version 4 of URLs: the signature is a query parameter.

use std::fmt::Write as _;

use ring::{digest, hmac};

use super::credentials::AwsCredentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// SHA-256 of an empty body.
pub(super) const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A GET request whose URL is to be signed. The only signed header is `host`.
pub(super) struct Presigned<'a> {
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) parameters: &'a [(&'a str, &'a str)],
    /// The hash of the body in hexadecimal, or `UNSIGNED-PAYLOAD`.
    pub(super) payload_hash: &'a str,
    pub(super) expires_seconds: u32,
}

impl Presigned<'_> {
    /// The URL with its signature. `timestamp` is that of [`timestamp`].
    pub(super) fn url(&self, credentials: &AwsCredentials, timestamp: &str) -> String {
        let date = timestamp.get(..8).unwrap_or_default();
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let query = self.query(credentials, &scope, timestamp);
        let Self { host, path, .. } = self;
        let request = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\n{}", self.payload_hash);
        let signature = sign(credentials, &scope, timestamp, &request);
        format!("https://{host}{path}?{query}&X-Amz-Signature={signature}")
    }

    /// All parameters but the signature, sorted by name.
    fn query(&self, credentials: &AwsCredentials, scope: &str, timestamp: &str) -> String {
        let credential = format!("{}/{scope}", credentials.access_key_id);
        let expires = self.expires_seconds.to_string();
        let mut parameters = self.parameters.to_vec();
        parameters.extend([
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", timestamp),
            ("X-Amz-Expires", &expires),
            ("X-Amz-SignedHeaders", "host"),
        ]);
        if let Some(token) = &credentials.session_token {
            parameters.push(("X-Amz-Security-Token", token.expose()));
        }
        parameters.sort_unstable();
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{}={}", percent_encode(name), percent_encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// The signature of a canonical request, in hexadecimal.
fn sign(credentials: &AwsCredentials, scope: &str, timestamp: &str, canonical_request: &str) -> String {
    let hash = hex(digest::digest(&digest::SHA256, canonical_request.as_bytes()).as_ref());
    let to_sign = format!("{ALGORITHM}\n{timestamp}\n{scope}\n{hash}");
    let secret = zeroize::Zeroizing::new(format!("AWS4{}", credentials.secret_access_key.expose()));
    // The key is derived from the parts of the scope: date, region, service, and the last word.
    let key = scope.split('/').fold(key(secret.as_bytes()), |derived, part| {
        key(hmac::sign(&derived, part.as_bytes()).as_ref())
    });
    hex(hmac::sign(&key, to_sign.as_bytes()).as_ref())
}

fn key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Encodes everything but RFC 3986's unreserved characters.
pub(super) fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

/// The time as in `20150830T123600Z`, from milliseconds since 1970.
pub(super) fn timestamp(wall_ms: i64) -> String {
    let seconds = wall_ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days since March 1 of the year 0, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `get-vanilla` of AWS's test suite.
    #[test]
    fn a_request_of_the_test_suite_has_its_signature() {
        let credentials = AwsCredentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let request = format!(
            "GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n{EMPTY_HASH}"
        );
        let scope = "20150830/us-east-1/service/aws4_request";
        assert_eq!(
            sign(&credentials, scope, "20150830T123600Z", &request),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
    }

    /// The example of AWS's documentation for signed URLs.
    #[test]
    fn a_url_of_the_documentation_has_its_signature() {
        let credentials = AwsCredentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let request = Presigned {
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            region: "us-east-1",
            service: "s3",
            parameters: &[],
            payload_hash: "UNSIGNED-PAYLOAD",
            expires_seconds: 86_400,
        };
        assert_eq!(
            request.url(&credentials, &timestamp(1_369_353_600_000)),
            "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z\
             &X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "19700101T000000Z");
        assert_eq!(timestamp(951_782_399_999), "20000228T235959Z");
        assert_eq!(timestamp(951_782_400_000), "20000229T000000Z");
        assert_eq!(timestamp(1_709_251_199_000), "20240229T235959Z");
        assert_eq!(timestamp(4_107_542_400_000), "21000301T000000Z");
    }
}

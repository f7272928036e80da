//! API versions: those of a broker, and the choice of the version for a request.

use std::collections::BTreeMap;

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    decode::DecodeError,
    errors::ErrorCode,
    frame,
    message::{Message, VersionRange},
    messages::{ApiVersionsRequest, ApiVersionsResponse},
};

use super::{CallError, Endpoint};

/// The ApiVersions response of a broker.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct BrokerVersions {
    ranges: BTreeMap<i16, VersionRange>,
    features: Features,
}

/// The finalized features of the cluster, such as `transaction.version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Features {
    /// Grows with each change; -1 if the broker does not report it.
    pub(crate) epoch: i64,
    pub(crate) finalized: BTreeMap<ByteString, i16>,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            epoch: -1,
            finalized: BTreeMap::new(),
        }
    }
}

impl BrokerVersions {
    /// The versions of an API that the broker supports; `None` if it does not know the API.
    pub(crate) fn of(&self, api: ApiKey) -> Option<VersionRange> {
        self.ranges.get(&api.id()).copied()
    }

    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the newest version within `requested` that both sides support.
    pub(super) fn choose(&self, api: ApiKey, requested: VersionRange, address: &Endpoint) -> Result<i16, CallError> {
        let theirs = self.of(api);
        let ours = api.client_versions().and_then(|ours| ours.intersect(requested));
        let both = ours.zip(theirs).and_then(|(ours, theirs)| ours.intersect(theirs));
        both.map(|both| both.max).ok_or_else(|| CallError::UnsupportedVersion {
            address: address.clone(),
            api,
            ours: ours.unwrap_or(requested),
            theirs,
        })
    }
}

impl From<&ApiVersionsResponse> for BrokerVersions {
    fn from(response: &ApiVersionsResponse) -> Self {
        let ranges = response.api_keys.iter();
        let ranges = ranges.map(|api| (api.api_key, VersionRange::new(api.min_version, api.max_version)));
        let finalized = response.finalized_features.iter();
        let finalized = finalized.map(|feature| (ByteString::from(&*feature.name), feature.max_version_level));
        Self {
            ranges: ranges.collect(),
            features: Features {
                epoch: response.finalized_features_epoch,
                finalized: finalized.collect(),
            },
        }
    }
}

/// The ApiVersions request, the first of every connection. Its response always has header version 0, so that it can be
/// read even if the broker does not know the version of the request.
#[derive(Debug)]
pub(super) struct Negotiation {
    version: i16,
}

/// The outcome of an ApiVersions response.
#[derive(Debug)]
pub(super) enum NegotiationStep {
    Done(BrokerVersions),
    /// The broker is older: send again in this version.
    Again(Negotiation),
    Refused(ErrorCode),
}

impl Negotiation {
    pub(super) fn new() -> Self {
        Self {
            version: own_versions().max,
        }
    }

    pub(super) fn version(&self) -> i16 {
        self.version
    }

    pub(super) fn request(&self) -> ApiVersionsRequest {
        ApiVersionsRequest {
            client_software_name: "milena".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..ApiVersionsRequest::default()
        }
    }

    pub(super) fn handle(&self, response: &Bytes) -> Result<NegotiationStep, DecodeError> {
        // A broker that does not know the version responds in version 0, with the error code at the same offset as
        // every version.
        let error = response.get(4..6).and_then(|code| code.try_into().ok());
        let error = error.map_or(0, i16::from_be_bytes);
        let unsupported = error == ErrorCode::UnsupportedVersion.code();
        let version = if unsupported { 0 } else { self.version };
        let (_, response) = frame::decode_response::<ApiVersionsResponse>(response, version)?;
        if unsupported && self.version > 0 {
            return Ok(NegotiationStep::Again(Self {
                version: self.next_version(&BrokerVersions::from(&response)),
            }));
        }
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => Ok(NegotiationStep::Done(BrokerVersions::from(&response))),
            code => Ok(NegotiationStep::Refused(code.unwrap_or(ErrorCode::UnknownServerError))),
        }
    }

    /// Returns the newest version that the broker supports. It is always older than this one, so that the negotiation
    /// ends.
    fn next_version(&self, theirs: &BrokerVersions) -> i16 {
        let both = theirs
            .of(ApiKey::ApiVersions)
            .and_then(|theirs| theirs.intersect(own_versions()));
        match both {
            Some(both) if both.max < self.version => both.max,
            _ => 0,
        }
    }
}

fn own_versions() -> VersionRange {
    ApiKey::ApiVersions
        .client_versions()
        .unwrap_or(ApiVersionsRequest::VERSIONS)
}

#[cfg(test)]
mod tests {
    use milena_wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};

    use super::*;

    fn api(key: ApiKey, min_version: i16, max_version: i16) -> ApiVersion {
        ApiVersion {
            api_key: key.id(),
            min_version,
            max_version,
            ..ApiVersion::default()
        }
    }

    fn encoded(response: &ApiVersionsResponse, version: i16) -> Bytes {
        let frame = frame::encode_response(response, version, 1).unwrap().into_bytes();
        frame.slice(frame::LENGTH_SIZE..)
    }

    fn unsupported(api_keys: Vec<ApiVersion>) -> Bytes {
        let response = ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys,
            ..ApiVersionsResponse::default()
        };
        encoded(&response, 0)
    }

    fn again(negotiation: &Negotiation, response: &Bytes) -> Negotiation {
        match negotiation.handle(response).unwrap() {
            NegotiationStep::Again(next) => next,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_older_broker_gets_the_request_again_in_its_newest_version() {
        let first = Negotiation::new();
        assert_eq!(first.version(), 4);
        let next = again(&first, &unsupported(vec![api(ApiKey::ApiVersions, 0, 2)]));
        assert_eq!(next.version(), 2);
    }

    #[test]
    fn a_broker_without_a_version_list_gets_version_0_once() {
        let next = again(&Negotiation::new(), &unsupported(vec![]));
        assert_eq!(next.version(), 0);
        let refused = next.handle(&unsupported(vec![])).unwrap();
        assert!(
            matches!(refused, NegotiationStep::Refused(ErrorCode::UnsupportedVersion)),
            "{refused:?}"
        );
        // A broker that advertises the version it has just refused.
        let next = again(&Negotiation::new(), &unsupported(vec![api(ApiKey::ApiVersions, 0, 9)]));
        assert_eq!(next.version(), 0);
    }

    #[test]
    fn features_are_kept_with_their_epoch() {
        let response = ApiVersionsResponse {
            finalized_features_epoch: 12,
            finalized_features: vec![FinalizedFeatureKey {
                name: "transaction.version".into(),
                max_version_level: 2,
                min_version_level: 1,
                ..FinalizedFeatureKey::default()
            }],
            ..ApiVersionsResponse::default()
        };
        let NegotiationStep::Done(versions) = Negotiation::new().handle(&encoded(&response, 4)).unwrap() else {
            panic!("not agreed");
        };
        assert_eq!(versions.features().epoch, 12);
        assert_eq!(versions.features().finalized.get("transaction.version"), Some(&2));
    }

    #[test]
    fn the_newest_version_of_both_within_the_cap_is_chosen() {
        let response = ApiVersionsResponse {
            api_keys: vec![api(ApiKey::Fetch, 4, 15), api(ApiKey::Metadata, 100, 200)],
            ..ApiVersionsResponse::default()
        };
        let versions = BrokerVersions::from(&response);
        let address = Endpoint::new("broker", 9092);
        let any = VersionRange::new(0, i16::MAX);
        assert_eq!(versions.choose(ApiKey::Fetch, any, &address), Ok(15));
        assert_eq!(
            versions.choose(ApiKey::Fetch, VersionRange::new(0, 12), &address),
            Ok(12)
        );
        let error = versions
            .choose(ApiKey::Fetch, VersionRange::new(16, 18), &address)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the broker at broker:9092 supports no usable version of Fetch: we can use 16 to 18, it has 4 to 15"
        );
        let error = versions.choose(ApiKey::Metadata, any, &address).unwrap_err();
        assert!(
            error.to_string().ends_with("we can use 0 to 13, it has 100 to 200"),
            "{error}"
        );
        let error = versions.choose(ApiKey::Heartbeat, any, &address).unwrap_err();
        assert!(error.to_string().ends_with("it has none"), "{error}");
    }

    #[test]
    fn garbage_is_an_error() {
        for length in 0..40 {
            let _ = Negotiation::new().handle(&Bytes::from(vec![0xff; length]));
        }
        assert!(Negotiation::new().handle(&Bytes::from_static(&[0; 5])).is_err());
    }
}

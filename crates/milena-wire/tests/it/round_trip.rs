//! Round trips: decoding returns the encoded value, for arbitrary values of every message in every version.

use milena_wire::{
    encode::EncodeProblem,
    message::Message,
    messages::{FetchRequest, ListGroupsRequest, MetadataRequest, OffsetFetchRequest, fetch_request},
};
use proptest::prelude::*;

use crate::{arbitrary::Source, every_message};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn arbitrary_values_survive(seed in any::<u64>()) {
        let mut source = Source::new(seed);
        for message in every_message::ALL {
            for version in message.versions.iter() {
                if let Err(problem) = (message.round_trip)(&mut source, version) {
                    panic!("{} version {version}, seed {seed}: {problem}", message.name);
                }
            }
        }
    }
}

#[test]
fn a_field_the_version_lacks_is_named_unless_ignorable() {
    let mut request = FetchRequest {
        rack_id: "rack".into(),
        ..FetchRequest::default()
    };
    let without = FetchRequest::default().encode(4).unwrap();
    assert_eq!(request.encode(4), Ok(without), "the rack is ignorable");

    request
        .forgotten_topics_data
        .push(fetch_request::ForgottenTopic::default());
    let error = request.encode(4).unwrap_err();
    assert_eq!(
        (error.field, error.problem),
        ("forgotten_topics_data", EncodeProblem::NotInVersion)
    );

    let request = ListGroupsRequest {
        states_filter: vec!["Stable".into()],
        ..ListGroupsRequest::default()
    };
    let error = request.encode(3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ListGroupsRequest version 3, field states_filter: is set, but this version does not have it"
    );
}

#[test]
fn null_where_a_version_has_none_is_named() {
    let request = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    assert!(request.encode(1).is_ok());
    let error = request.encode(0).unwrap_err();
    assert_eq!((error.field, error.problem), ("topics", EncodeProblem::NullNotAllowed));
}

#[test]
fn versions_outside_the_table_are_refused_both_ways() {
    let request = OffsetFetchRequest::default();
    for version in [i16::MIN, 0, 11, i16::MAX] {
        let error = request.encode(version).unwrap_err();
        assert!(matches!(error.problem, EncodeProblem::UnsupportedVersion { .. }));
        let error = OffsetFetchRequest::decode(&bytes::Bytes::new(), version).unwrap_err();
        assert!(error.to_string().contains("outside the supported 1 to 10"), "{error}");
    }
}

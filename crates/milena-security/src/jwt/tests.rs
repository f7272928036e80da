//! Tokens of jose4j, tokens signed here, and refused ones.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Secret;

/// A time between issue and expiry of the fixtures.
const NOW_MS: i64 = 1_800_000_000_000;

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn keys() -> Jwks {
    Jwks::parse(fixture("keys.json").as_bytes()).unwrap()
}

/// Algorithm and token.
fn tokens() -> Vec<(String, String)> {
    let text = fixture("tokens.txt");
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    pairs
        .map(|(algorithm, token)| (algorithm.to_owned(), token.to_owned()))
        .collect()
}

fn rules() -> Validation {
    Validation {
        audience: vec!["kafka".to_owned()],
        issuer: Some("https://issuer".to_owned()),
        ..Validation::new(NOW_MS)
    }
}

#[test]
fn tokens_of_jose4j_are_verified() {
    let (keys, tokens) = (keys(), tokens());
    assert_eq!(tokens.len(), Algorithm::ALL.len());
    for (algorithm, token) in tokens {
        let claims = verify(&token, &keys, &rules()).unwrap_or_else(|error| panic!("{algorithm}: {error}"));
        assert_eq!(claims.principal, "alice");
        assert_eq!(claims.scope, ["read", "write"]);
        assert_eq!(claims.expires_at_ms, 4_922_000_000_000);
        assert_eq!(claims.issued_at_ms, Some(1_700_000_000_000));
        assert_eq!(claims.all["iss"], "https://issuer");
    }
}

#[test]
fn a_changed_token_is_refused() {
    for (algorithm, token) in tokens() {
        let sections: Vec<&str> = token.split('.').collect();
        let claims = BASE64_URL_SAFE_NO_PAD.encode(
            json!({"sub": "admin", "iss": "https://issuer", "aud": "kafka", "iat": 1_700_000_000, "exp": 4_922_000_000_u64})
                .to_string(),
        );
        let forged = format!("{}.{claims}.{}", sections[0], sections[2]);
        assert_eq!(
            verify(&forged, &keys(), &rules()),
            Err(JwtError::Signature),
            "{algorithm}"
        );
    }
}

#[test]
fn the_algorithm_must_be_one_of_the_key() {
    let tokens = tokens();
    let with_header = |header: Value| {
        let rest = tokens[0].1.split_once('.').unwrap().1;
        format!("{}.{rest}", BASE64_URL_SAFE_NO_PAD.encode(header.to_string()))
    };
    let verified = |header: Value| verify(&with_header(header), &keys(), &rules()).unwrap_err();
    assert_eq!(
        verified(json!({"alg": "none", "kid": "rsa"})),
        JwtError::Algorithm("none".to_owned())
    );
    assert_eq!(
        verified(json!({"alg": "HS256", "kid": "rsa"})),
        JwtError::Algorithm("HS256".to_owned())
    );
    assert_eq!(verified(json!({"alg": "ES256", "kid": "rsa"})), JwtError::Signature);
    assert_eq!(verified(json!({"alg": "RS256", "kid": "p256"})), JwtError::Signature);
    assert_eq!(
        verified(json!({"alg": "RS256", "kid": "new"})),
        JwtError::UnknownKey { id: "new".to_owned() }
    );
    assert!(matches!(
        verified(json!({"alg": "RS256", "crit": ["b64"]})),
        JwtError::Malformed(_)
    ));
    assert!(matches!(verified(json!({"kid": "rsa"})), JwtError::Malformed(_)));
    assert!(matches!(
        verified(json!({"alg": "RS256", "kid": "x".repeat(1001)})),
        JwtError::Malformed(_)
    ));
}

#[test]
fn keys_may_restrict_their_use() {
    let key = |extra: &str| fixture("keys.json").replace("\"kty\":\"RSA\"", &format!("\"kty\":\"RSA\",{extra}"));
    let verified = |json: String| verify(&tokens()[0].1, &Jwks::parse(json.as_bytes()).unwrap(), &rules());
    assert!(verified(key("\"alg\":\"RS256\",\"use\":\"sig\"")).is_ok());
    assert_eq!(verified(key("\"alg\":\"RS512\"")), Err(JwtError::Signature));
    assert_eq!(
        verified(key("\"use\":\"enc\"")),
        Err(JwtError::UnknownKey { id: "rsa".to_owned() })
    );
}

#[test]
fn a_token_without_key_id_is_tried_with_all_keys() {
    let (key, header) = (signing_key("server.key.pem"), Map::new());
    let token = sign(Algorithm::Rs256, &key, &header, &claims()).unwrap();
    assert_eq!(key_id(token.expose()), Ok(None));
    assert_eq!(verify(token.expose(), &keys(), &rules()), Err(JwtError::Signature));
    assert_eq!(key_id(&tokens()[0].1), Ok(Some("rsa".to_owned())));
}

fn signing_key(name: &str) -> SigningKey {
    SigningKey::from_pem(&Secret::from(fixture(name)), Some(&Secret::from("secret"))).unwrap()
}

fn claims() -> Map<String, Value> {
    let claims = json!({"sub": "alice", "iss": "https://issuer", "aud": "kafka", "iat": 1_700_000_000, "exp": 4_922_000_000_u64});
    claims.as_object().unwrap().clone()
}

/// Claims of a fixture with some changed, checked as those of a verified token.
fn checked(changes: &[(&str, Value)], rules: &Validation) -> Result<Claims, JwtError> {
    let mut all = claims();
    for (name, value) in changes {
        match value {
            Value::Null => all.remove(*name),
            value => all.insert((*name).to_owned(), value.clone()),
        };
    }
    claims::check_secured(all, rules)
}

#[test]
fn claims_are_checked_as_in_kafka() {
    let rules = rules();
    assert!(checked(&[], &rules).is_ok());
    let now = NOW_MS / 1000;
    for (name, value) in [
        ("exp", Value::Null),
        ("exp", json!(now - 31)),
        ("exp", json!(-1)),
        ("exp", json!("soon")),
        ("iat", Value::Null),
        ("iat", json!(-5)),
        ("nbf", json!(now + 31)),
        ("iss", Value::Null),
        ("iss", json!("https://other")),
        ("aud", Value::Null),
        ("aud", json!("other")),
        ("aud", json!(["a", "b"])),
        ("aud", json!(7)),
        ("sub", Value::Null),
        ("sub", json!(" ")),
        ("sub", json!(7)),
        ("scope", json!(" ")),
        ("scope", json!(["a", "a"])),
        ("scope", json!(["a", " a "])),
        ("scope", json!(["a", 7])),
    ] {
        let error = checked(&[(name, value.clone())], &rules).unwrap_err();
        assert!(matches!(&error, JwtError::Claim(_)), "{name}={value}: {error}");
    }
    for (name, value) in [
        ("exp", json!(now - 29)),
        ("nbf", json!(now + 29)),
        ("iat", json!(now + 1000)),
        ("aud", json!(["x", "kafka"])),
        ("scope", json!("a b")),
        ("scope", json!(7)),
        ("scope", json!([])),
    ] {
        assert!(checked(&[(name, value.clone())], &rules).is_ok(), "{name}={value}");
    }
    assert_eq!(checked(&[("scope", json!(" a b "))], &rules).unwrap().scope, ["a b"]);
    assert_eq!(
        checked(&[("exp", json!(4.9e9 + 0.25))], &rules).unwrap().expires_at_ms,
        4_900_000_000_250
    );
}

#[test]
fn without_an_expected_audience_a_token_must_have_none() {
    let rules = Validation::new(NOW_MS);
    let error = checked(&[], &rules).unwrap_err().to_string();
    assert!(error.contains("sasl.oauthbearer.expected.audience"), "{error}");
    assert!(checked(&[("aud", Value::Null)], &rules).is_ok());
}

#[test]
fn claims_may_have_other_names() {
    let rules = Validation {
        sub_claim: "client_id".to_owned(),
        scope_claim: "scp".to_owned(),
        ..rules()
    };
    let claims = checked(&[("client_id", json!("app")), ("scp", json!(["x"]))], &rules).unwrap();
    assert_eq!(
        (claims.principal.as_str(), &claims.scope[..]),
        ("app", &["x".to_owned()][..])
    );
}

/// An unsecured token with these claims.
fn unsecured(claims: Value) -> String {
    let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", encode(json!({"alg": "none"})), encode(claims))
}

#[test]
fn unsecured_tokens_are_read_only_as_such() {
    let rules = UnsecuredValidation::new(NOW_MS);
    let now = NOW_MS / 1000;
    let token = unsecured(json!({"sub": "alice", "exp": now + 60, "scope": ["b", "a", " a ", ""]}));
    let claims = verify_unsecured(&token, &rules).unwrap();
    assert_eq!(claims.principal, "alice");
    assert_eq!(claims.scope, ["a", "b"]);
    assert!(verify(&token, &keys(), &Validation::new(NOW_MS)).is_err());
    assert!(matches!(
        verify_unsecured(&tokens()[0].1, &rules),
        Err(JwtError::Algorithm(_))
    ));
    assert!(verify_unsecured(&format!("{token}AAAA"), &rules).is_err());
    for claims in [
        json!({"exp": now + 60}),
        json!({"sub": " ", "exp": now + 60}),
        json!({"sub": "alice"}),
        json!({"sub": "alice", "exp": now}),
        json!({"sub": "alice", "exp": now + 60, "iat": now + 1}),
        json!({"sub": "alice", "exp": now + 60, "iat": "x"}),
    ] {
        assert!(
            verify_unsecured(&unsecured(claims.clone()), &rules).is_err(),
            "{claims}"
        );
    }
}

#[test]
fn a_missing_scope_is_named_as_kafka_names_it() {
    let rules = UnsecuredValidation {
        required_scope: vec!["a".to_owned(), "b".to_owned()],
        ..UnsecuredValidation::new(NOW_MS)
    };
    let token = |scope: Value| unsecured(json!({"sub": "alice", "exp": NOW_MS / 1000 + 60, "scope": scope}));
    assert!(verify_unsecured(&token(json!(["a", "b", "c"])), &rules).is_ok());
    assert_eq!(
        verify_unsecured(&token(json!("a")), &rules),
        Err(JwtError::InsufficientScope {
            scope: "[a, b]".to_owned()
        })
    );
}

#[test]
fn clients_inspect_tokens_without_keys() {
    let claims = inspect(&tokens()[0].1, "scope", "sub").unwrap();
    assert_eq!(
        (claims.principal.as_str(), claims.expires_at_ms),
        ("alice", 4_922_000_000_000)
    );
    assert!(inspect("opaque-token", "scope", "sub").is_err());
    assert!(inspect("a.b", "scope", "sub").is_err());
    assert!(inspect("a.b.c.d", "scope", "sub").is_err());
}

#[test]
fn claims_with_one_name_twice_are_refused() {
    let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let claims = BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":"a","sub":"b","exp":4922000000}"#);
    let error = verify_unsecured(&format!("{header}.{claims}."), &UnsecuredValidation::new(NOW_MS));
    assert!(matches!(error, Err(JwtError::Malformed(_))));
}

#[test]
fn assertions_are_signed_with_every_form_of_key() {
    for (algorithm, name) in [
        (Algorithm::Rs256, "server.key.pem"),
        (Algorithm::Rs256, "server.pkcs1.key.pem"),
        (Algorithm::Rs256, "server.pbes2.key.pem"),
        (Algorithm::Es256, "server-ec.key.pem"),
        (Algorithm::Es256, "server-ec.sec1.key.pem"),
    ] {
        let mut header = Map::new();
        header.insert("kid".to_owned(), json!("k1"));
        let token = sign(algorithm, &signing_key(name), &header, &claims()).unwrap();
        assert_eq!(key_id(token.expose()), Ok(Some("k1".to_owned())));
        let claims =
            verify(token.expose(), &fixture_keys(), &rules()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(claims.principal, "alice", "{name}");
    }
    for (algorithm, name) in [
        (Algorithm::Rs256, "server-ec.key.pem"),
        (Algorithm::Es256, "server.key.pem"),
        (Algorithm::Es256, "p521.key.pem"),
        (Algorithm::Ps256, "server.key.pem"),
    ] {
        assert!(
            sign(algorithm, &signing_key(name), &Map::new(), &claims()).is_err(),
            "{name}"
        );
    }
}

/// Public keys of the certificates `server` and `server-ec`, both as `k1`.
fn fixture_keys() -> Jwks {
    use crate::x509::der::Reader;
    let spki = |name: &str| {
        let chain = crate::store::read_trusted(fixture(name).as_bytes(), None).unwrap();
        let mut body = Reader::new(&chain[0]).sequence().unwrap().sequence().unwrap();
        for _ in 0..6 {
            body.any().unwrap();
        }
        let mut spki = body.sequence().unwrap();
        spki.any().unwrap();
        spki.any().unwrap().value[1..].to_vec()
    };
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let rsa = spki("server.pem");
    let mut rsa = Reader::new(&rsa).sequence().unwrap();
    let (modulus, exponent) = (rsa.any().unwrap().value, rsa.any().unwrap().value);
    let point = spki("server-ec.pem");
    let json = json!({"keys": [
        {"kty": "RSA", "kid": "k1", "n": encode(modulus), "e": encode(exponent)},
        {"kty": "EC", "crv": "P-256", "kid": "k1", "x": encode(&point[1..33]), "y": encode(&point[33..])},
    ]});
    Jwks::parse(json.to_string().as_bytes()).unwrap()
}

#[test]
fn unusable_key_sets_are_errors() {
    for json in [
        "",
        "[]",
        "{}",
        r#"{"keys": 7}"#,
        r#"{"keys": []}"#,
        r#"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#,
        r#"{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}"#,
        r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}"#,
    ] {
        assert!(matches!(Jwks::parse(json.as_bytes()), Err(JwtError::Keys(_))), "{json}");
    }
    let keys = keys();
    assert!(keys.has_key("rsa") && !keys.has_key("other"));
    assert_eq!(keys.len(), 4);
}

proptest! {
    #[test]
    fn no_token_panics(token in r"[A-Za-z0-9_.=\-]{0,200}") {
        let _ = verify(&token, &keys(), &rules());
        let _ = verify_unsecured(&token, &UnsecuredValidation::new(NOW_MS));
        let _ = inspect(&token, "scope", "sub");
        let _ = key_id(&token);
    }

    #[test]
    fn no_claims_panic(json in r#"[{}\[\]",:a-z0-9.\-]{0,60}"#, number in any::<f64>()) {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let header = encode(r#"{"alg":"none"}"#);
        let _ = verify_unsecured(&format!("{header}.{}.", encode(&json)), &UnsecuredValidation::new(NOW_MS));
        let claims = json!({"sub": "a", "exp": number, "iat": -number, "nbf": number});
        let _ = verify_unsecured(&format!("{header}.{}.", encode(&claims.to_string())), &UnsecuredValidation::new(i64::MIN));
        let _ = claims::check_secured(claims.as_object().unwrap().clone(), &Validation::new(i64::MIN));
    }

    #[test]
    fn no_changed_bit_verifies(place in any::<prop::sample::Index>(), which in any::<prop::sample::Index>()) {
        let tokens = tokens();
        let (_, token) = &tokens[which.index(tokens.len())];
        let mut bytes = token.clone().into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        prop_assert!(verify(&changed, &keys(), &rules()).is_err());
    }
}
